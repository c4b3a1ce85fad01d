"""PPLqa, GPTScore and G-EVAL on MT-Bench: six systems, 149 answers, 108 human votes."""

from opencompass_ext.datasets import PPLqaDataset
from opencompass_ext.evaluators import PPLqaEvaluator
from opencompass_ext.inferencers import PPLqaInferencer
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

pplqa_mtbench_datasets = [
    dict(
        abbr="pplqa-mtbench",
        type=PPLqaDataset,
        path="data/pplqa",
        name="mtbench_human",
        reader_cfg=dict(input_columns=["question", "answer"], output_column=None),
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template="{question}"),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=PPLqaInferencer, baselines=["gptscore", "geval"]),
        ),
        eval_cfg=dict(evaluator=dict(type=PPLqaEvaluator)),
    )
]
