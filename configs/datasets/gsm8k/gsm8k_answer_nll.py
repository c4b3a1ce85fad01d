"""Mean NLL of GSM8K's worked answers given the question; the template labels the answer."""

from opencompass_ext.datasets import JsonlDataset
from opencompass_ext.evaluators import AverageInferencePPLEvaluator
from opencompass_ext.inferencers import InferencePPLOnlyInferencer
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

gsm8k_datasets = [
    dict(
        abbr="gsm8k-answer-nll",
        type=JsonlDataset,
        path="data/gsm8k/gsm8k.jsonl",
        reader_cfg=dict(input_columns=["question", "answer"], output_column=None),
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
