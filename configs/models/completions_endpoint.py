"""SmolLM2-135M-Instruct behind a completions endpoint that echoes prompts, such as vLLM's server.

Set OPENAI_BASE_URL=http://localhost:8000/v1, and OPENAI_API_KEY if the server needs a key.
"""

from opencompass_ext.models import OpenAICompletionsModel

models = [
    dict(
        type=OpenAICompletionsModel,
        abbr="smollm2-135m-instruct-endpoint",
        path="HuggingFaceTB/SmolLM2-135M-Instruct",  # the name it is served under
        tokenizer_path="embedded:smollm2-135m-instruct",
        # One less than the server's limit: vLLM counts the token it generates.
        max_seq_len=8191,
        run_cfg=dict(num_gpus=0),
    )
]
