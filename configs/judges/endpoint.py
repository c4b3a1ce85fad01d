"""A judge behind any OpenAI-compatible endpoint, configured by environment variables.

OPENAI_BASE_URL is its URL, such as https://host/v1, and OPENAI_MODEL the model to ask; the key, if
the endpoint needs one, is read from OPENAI_API_KEY and is written to no config and no file.
"""

from opencompass_ext.judging import EndpointJudge

judge = dict(
    type=EndpointJudge,
    key_env="OPENAI_API_KEY",
    # Longer sources are read in parts; None sets no limit.
    context_tokens=None,
    concurrency=8,
)
