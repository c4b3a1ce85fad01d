"""Measure the mean NLL of GSM8K answers given their questions, from a plain JSONL file.

For your own data, change ``path``, the columns and the template; ``labelled_columns`` says which of
the inserted columns are scored. JSON, CSV, TSV and Parquet files work the same way, and
``HFDataset`` takes a hub id.
"""

from mmengine.config import read_base

from opencompass_ext.datasets import JsonlDataset
from opencompass_ext.evaluators import AverageInferencePPLEvaluator
from opencompass_ext.inferencers import InferencePPLOnlyInferencer
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

with read_base():
    from opencompass_ext.configs.models.embedded_smollm2_135m_instruct import models

datasets = [
    dict(
        abbr="my-gsm8k",
        type=JsonlDataset,
        path="data/gsm8k/gsm8k.jsonl",
        reader_cfg=dict(input_columns=["question", "answer"], test_range="[:50]"),
        infer_cfg=dict(
            prompt_template=dict(
                type=PromptTemplate, template="Question: {question}\nAnswer: {answer}"
            ),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=InferencePPLOnlyInferencer, labelled_columns=["answer"]),
        ),
        eval_cfg=dict(evaluator=dict(type=AverageInferencePPLEvaluator)),
    )
]

work_dir = "outputs/your_own_data"
