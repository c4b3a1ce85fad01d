"""Measures the source support of the answers that eval_thelma_live_model.py let a model give.

python run.py examples/eval_thelma_live_model.py
python run.py examples/eval_thelma_live_support.py -r

The second command goes on with the run of the first, whose answers and verdicts it keeps: the
report then has the judge's groundedness and source support of the same answers side by side.
"""

from mmengine.config import read_base

from opencompass_ext.datasets import RAGDataset
from opencompass_ext.evaluators import SourceSupportEvaluator
from opencompass_ext.inferencers import SourceSupportInferencer
from opencompass_ext.prompting import ZeroRetriever

with read_base():
    from opencompass_ext.configs.models.embedded_smollm2_135m_instruct import models as _scoring

    from .eval_thelma_live_model import datasets as _answered
    from .eval_thelma_live_model import models as _answering

_measured = dict(
    abbr="source-support-expertqa",
    type=RAGDataset,
    path="data/rag",
    name="expertqa",
    responses_from="outputs/thelma_live_model/latest/predictions/smollm2-135m-chat/thelma-expertqa.json",
    responses_range="[:3]",
    reader_cfg=dict(input_columns=["query", "sources", "response"], output_column=None),
    infer_cfg=dict(
        retriever=dict(type=ZeroRetriever),
        # Passages and answer may be longer than the model reads at once.
        inferencer=dict(type=SourceSupportInferencer, long_text="window"),
    ),
    eval_cfg=dict(evaluator=dict(type=SourceSupportEvaluator)),
)

models = [*_answering, *_scoring]
datasets = [*_answered, _measured]
model_dataset_combinations = [
    dict(models=_answering, datasets=_answered),
    dict(models=_scoring, datasets=[_measured]),
]
work_dir = "outputs/thelma_live_model"
