"""Judge recorded answers with THELMA through any OpenAI-compatible endpoint.

OPENAI_BASE_URL=https://host/v1 OPENAI_MODEL=name python run.py examples/eval_thelma_endpoint.py

The key, if the endpoint needs one, is read from OPENAI_API_KEY. All replies are kept in the run
folder: -m eval -r evaluates again without calling the judge.
"""

from mmengine.config import read_base

from opencompass_ext.models import RecordedModel

with read_base():
    from opencompass_ext.configs.datasets.rag.thelma import thelma_datasets
    from opencompass_ext.configs.judges.endpoint import judge as _judge

models = [
    dict(
        type=RecordedModel,
        abbr="begin-systems",
        path="data/rag/begin_wow.jsonl",
        run_cfg=dict(num_gpus=0),
    )
]

datasets = [*thelma_datasets]
for _dataset in datasets:
    _dataset["reader_cfg"]["test_range"] = "[:20]"
    _dataset["eval_cfg"]["evaluator"]["judge_cfg"] = _judge

work_dir = "outputs/thelma_endpoint"
