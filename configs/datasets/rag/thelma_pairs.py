"""Does a judge get obvious pairs right? Pairs with one clearly better side, per THELMA metric."""

from mmengine.config import read_base

from opencompass_ext.datasets import RAGPairsDataset
from opencompass_ext.evaluators import ThelmaPairsEvaluator
from opencompass_ext.inferencers import GenInferencer
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

# The judge under test: replace it with yours.
with read_base():
    from ...judges.embedded_smollm2_135m import judge as _judge

_metrics = [
    *("source_precision_chunk", "source_precision_fact", "source_query_coverage"),
    *("response_precision", "response_query_coverage", "response_self_distinctness"),
    "groundedness",
]

# Run it with configs/models/recorded_answers.py, which replays the pairs' own responses.
thelma_pairs_datasets = [
    dict(
        abbr=f"pairs-{metric}",
        type=RAGPairsDataset,
        path="data/rag_pairs",
        name="en",
        aspect=metric,
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template="{query}"),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=GenInferencer, max_out_len=1),
        ),
        eval_cfg=dict(
            evaluator=dict(type=ThelmaPairsEvaluator, judge_cfg=_judge, metrics=[metric])
        ),
    )
    for metric in _metrics
]
