"""What source support detects and misses: copies, negations, swapped names, changed numbers."""

from opencompass_ext.datasets import RAGDataset
from opencompass_ext.evaluators import SourceSupportEvaluator
from opencompass_ext.inferencers import SourceSupportInferencer
from opencompass_ext.prompting import ZeroRetriever

source_support_sanity_datasets = [
    dict(
        abbr=f"source-support-sanity-{language}",
        type=RAGDataset,
        path="data/rag_sanity",
        name=language,
        reader_cfg=dict(input_columns=["query", "sources", "response"], output_column=None),
        infer_cfg=dict(
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=SourceSupportInferencer, language=language),
        ),
        eval_cfg=dict(evaluator=dict(type=SourceSupportEvaluator, unit_column="group")),
    )
    for language in ("en", "zh")
]
