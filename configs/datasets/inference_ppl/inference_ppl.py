"""Mean NLL of labelled spans, English and Chinese: worked solutions, and final answers only."""

from opencompass_ext.datasets import InferencePPLDataset
from opencompass_ext.evaluators import AverageInferencePPLEvaluator
from opencompass_ext.inferencers import InferencePPLOnlyInferencer
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

_names = [
    "en_gsm8k_reasoning",
    "en_gsm8k_answer",
    "zh_cmath_answer",
    "zh_gaokao_reasoning",
    "zh_gaokao_answer",
]

inference_ppl_datasets = [
    dict(
        abbr=f"inference-ppl-{name}",
        type=InferencePPLDataset,
        path="data/inference_ppl",
        name=name,
        reader_cfg=dict(input_columns=["text", "label"], output_column=None),
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template="{text}"),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=InferencePPLOnlyInferencer),
        ),
        eval_cfg=dict(evaluator=dict(type=AverageInferencePPLEvaluator)),
    )
    for name in _names
]
