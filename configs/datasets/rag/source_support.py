"""Source support, groundedness without a judge, on responses with human groundedness labels."""

from opencompass_ext.datasets import RAGDataset
from opencompass_ext.evaluators import SourceSupportEvaluator
from opencompass_ext.inferencers import SourceSupportInferencer
from opencompass_ext.prompting import ZeroRetriever

# Claims of one answer are not independent: intervals resample the answers.
_units = {"begin_wow": None, "expertqa_claims": "row"}

source_support_datasets = [
    dict(
        abbr=f"source-support-{name}",
        type=RAGDataset,
        path="data/rag",
        name=name,
        reader_cfg=dict(input_columns=["query", "sources", "response"], output_column=None),
        infer_cfg=dict(
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=SourceSupportInferencer),
        ),
        eval_cfg=dict(evaluator=dict(type=SourceSupportEvaluator, unit_column=unit)),
    )
    for name, unit in _units.items()
]
