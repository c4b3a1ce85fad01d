"""Rank the answers from eval_pplqa_generate.py, with SmolLM2-135M as the evaluator.

python run.py examples/eval_pplqa_generate.py -m infer
python run.py examples/eval_pplqa_rank_generated.py

The evaluator should not be one of the systems, since a model tends to prefer its own answers; here
it is one, so that the example needs no third model.
"""

from mmengine.config import read_base

from opencompass_ext.datasets import PPLqaDataset
from opencompass_ext.evaluators import PPLqaEvaluator
from opencompass_ext.inferencers import PPLqaInferencer
from opencompass_ext.prompting import ZeroRetriever

with read_base():
    from opencompass_ext.configs.models.embedded_smollm2_135m_instruct import models

datasets = [
    dict(
        abbr="pplqa-generated",
        type=PPLqaDataset,
        path="data/pplqa/mtbench_questions.jsonl",
        # One file per system, named by its folder. OpenCompass's files work too.
        answers_from=[
            f"outputs/pplqa_generate/latest/predictions/{system}/mtbench-questions.json"
            for system in ("smollm2-135m-instruct-chat", "gemma3-270m")
        ],
        reader_cfg=dict(input_columns=["question", "answer"]),
        infer_cfg=dict(
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=PPLqaInferencer, baselines=["gptscore"]),
        ),
        eval_cfg=dict(evaluator=dict(type=PPLqaEvaluator)),
    )
]

work_dir = "outputs/pplqa_rank_generated"
