"""Questions with retrieved passages for a model to answer live, judged by THELMA; 66 rows."""

from mmengine.config import read_base

from opencompass_ext.datasets import RAGDataset
from opencompass_ext.evaluators import ThelmaEvaluator
from opencompass_ext.inferencers import GenInferencer
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

# A demo judge, small enough for any machine: replace it with yours.
with read_base():
    from ...judges.embedded_smollm2_135m import judge as _judge

_prompt = """Answer the question from the passages below, and from nothing else.
If they do not hold the answer, say that you could not find it.

{sources_text}

Question: {query}"""

thelma_live_datasets = [
    dict(
        abbr="thelma-expertqa",
        type=RAGDataset,
        path="data/rag",
        name="expertqa",
        reader_cfg=dict(input_columns=["query", "sources_text"], output_column=None),
        infer_cfg=dict(
            prompt_template=dict(
                type=PromptTemplate, template=dict(round=[dict(role="HUMAN", prompt=_prompt)])
            ),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=GenInferencer, max_out_len=256),
        ),
        eval_cfg=dict(evaluator=dict(type=ThelmaEvaluator, judge_cfg=_judge)),
    )
]
