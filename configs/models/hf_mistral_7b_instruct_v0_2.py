"""Mistral-7B-Instruct-v0.2 (Apache-2.0) in bfloat16 on one GPU, from the hub or its cache."""

from opencompass_ext.models import HuggingFaceBaseModel

models = [
    dict(
        type=HuggingFaceBaseModel,
        abbr="mistral-7b-instruct-v0.2",
        path="mistralai/Mistral-7B-Instruct-v0.2",
        model_kwargs=dict(dtype="bfloat16", device_map="auto"),
        run_cfg=dict(num_gpus=1),
    )
]
