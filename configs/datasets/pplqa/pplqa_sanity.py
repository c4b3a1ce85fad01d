"""PPLqa, GPTScore and G-EVAL on five known kinds of answers, from correct to unrelated."""

from opencompass_ext.datasets import PPLqaDataset
from opencompass_ext.evaluators import PPLqaSanityEvaluator
from opencompass_ext.inferencers import PPLqaInferencer
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

pplqa_sanity_datasets = [
    dict(
        abbr="pplqa-sanity",
        type=PPLqaDataset,
        path="data/pplqa_sanity",
        name="sanity",
        reader_cfg=dict(input_columns=["question", "answer"], output_column=None),
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template="{question}"),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=PPLqaInferencer, baselines=["gptscore", "geval"]),
        ),
        eval_cfg=dict(evaluator=dict(type=PPLqaSanityEvaluator)),
    )
]
