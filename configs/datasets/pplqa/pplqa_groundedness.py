"""PPLqa given the sources, on 200 responses with human groundedness labels."""

from opencompass_ext.datasets import PPLqaDataset
from opencompass_ext.evaluators import PPLqaEvaluator
from opencompass_ext.inferencers import PPLqaInferencer
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

pplqa_groundedness_datasets = [
    dict(
        abbr="pplqa-groundedness",
        type=PPLqaDataset,
        path="data/rag",
        name="begin_wow",
        reader_cfg=dict(input_columns=["question", "answer", "sources"], output_column=None),
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template="{question}"),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=PPLqaInferencer, context="sources"),
        ),
        eval_cfg=dict(evaluator=dict(type=PPLqaEvaluator)),
    )
]
