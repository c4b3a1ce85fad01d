"""Have a model answer from retrieved sources, then judge its answers with THELMA.

python run.py examples/eval_thelma_live_model.py

Both are SmolLM2-135M, so that it runs anywhere; as a judge it is a demo (see docs/judges.md).
"""

from mmengine.config import read_base

from opencompass_ext.models import HuggingFacewithChatTemplate

with read_base():
    from opencompass_ext.configs.datasets.rag.thelma_live import thelma_live_datasets

models = [
    dict(
        type=HuggingFacewithChatTemplate,
        abbr="smollm2-135m-chat",
        path="embedded:smollm2-135m-instruct",
        run_cfg=dict(num_gpus=0),
    )
]

datasets = [*thelma_live_datasets]
for _dataset in datasets:
    _dataset["reader_cfg"]["test_range"] = "[:3]"

work_dir = "outputs/thelma_live_model"
