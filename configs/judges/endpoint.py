"""A judge behind any OpenAI-compatible endpoint, named by environment variables.

OPENAI_BASE_URL says where it is, such as https://host/v1, and OPENAI_MODEL which model to ask; the
key, if the endpoint wants one, is read from OPENAI_API_KEY and stands in no config and no file.
"""

from opencompass_ext.judging import EndpointJudge

judge = dict(
    type=EndpointJudge,
    key_env="OPENAI_API_KEY",
    # Longer sources are read in parts; None leaves it to the endpoint.
    context_tokens=None,
    concurrency=8,
)
