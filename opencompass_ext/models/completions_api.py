"""A model behind an OpenAI-compatible completions endpoint that echoes prompts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opencompass_ext.endpoints import NEEDED_PACKAGES
from opencompass_ext.endpoints.address import (
    check_key_env,
    check_seconds,
    checked_base_url,
    read_key,
)
from opencompass_ext.errors import ConfigError, MissingDependencyError
from opencompass_ext.models.options import as_plain_json, check_positive
from opencompass_ext.models.scoring import SpanScoringModel
from opencompass_ext.models.sources import check_source, local_source, source_identity
from opencompass_ext.registry import MODELS

if TYPE_CHECKING:
    from opencompass_ext.likelihood.scorer import Backend
    from opencompass_ext.models.tokenizer import TextSide


@MODELS.register_module()
class OpenAICompletionsModel(SpanScoringModel):
    """Scores texts through ``POST <base_url>/completions`` with ``echo`` and ``logprobs``.

    Prompts are sent as token ids, so the tokens scored are exactly those that the local tokenizer
    maps to the labelled characters. The endpoint has to echo prompts with their log-probabilities,
    as vLLM's server does. Servers that only generate (llama.cpp's, chat endpoints) are refused
    with an error that says so.

    Tried with the server of vLLM 0.32. Needs the extra ``api``.

    Args:
        path: Name of the model as the server knows it.
        tokenizer_path: The tokenizer of that model: a folder, ``"embedded:<name>"`` or a hub id.
        base_url: Such as ``"http://localhost:8000/v1"``; default: the environment variable
            ``OPENAI_BASE_URL``.
        key_env: The environment variable that holds the key, sent as a bearer token. Where it is
            not set no key is sent. The key itself never stands in a config.
        tokenizer_kwargs: For ``AutoTokenizer.from_pretrained``.
        max_tokens: Tokens the server generates after each prompt, which are thrown away: 0, or 1
            for a server that insists on one.
        batch_prompts: Most prompts per request; a smaller ``batch_size`` holds as well.
        concurrency: Most requests at once.
        timeout: Seconds without a byte from the server before a request counts as failed.
        max_attempts: How often a request is tried when the server cannot be reached, is busy (429)
            or fails (5xx). ``Retry-After`` is obeyed.
        **text_options: See ``SpanScoringModel``. For vLLM's server ``max_seq_len`` is one less than
            its limit, as it always generates a token. With None the server judges, and refuses what
            is too long for it.

    Raises:
        ConfigError: An option has a value it cannot have.
        ModelError: ``tokenizer_path`` names a folder that does not exist, or neither ``base_url``
            nor the environment says where the endpoint is.
    """

    is_on_server = True

    def __init__(
        self,
        path: str,
        tokenizer_path: str,
        base_url: str | None = None,
        key_env: str = "OPENAI_API_KEY",
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        max_tokens: int = 0,
        batch_prompts: int = 8,
        concurrency: int = 4,
        timeout: float = 300.0,
        max_attempts: int = 6,
        **text_options: Any,
    ) -> None:
        super().__init__(**text_options)
        check_positive(
            batch_prompts=batch_prompts, concurrency=concurrency, max_attempts=max_attempts
        )
        if isinstance(max_tokens, bool) or max_tokens not in (0, 1):
            raise ConfigError(f"max_tokens must be 0 or 1, got {max_tokens!r}")
        check_seconds(timeout=timeout)
        check_key_env(key_env)
        check_source(tokenizer_path, "tokenizer_path")
        self.path = path
        self.tokenizer_path = tokenizer_path
        self.base_url = checked_base_url(base_url, "/completions")
        self.key_env = key_env
        self.tokenizer_kwargs = dict(tokenizer_kwargs or {})
        self.max_tokens = max_tokens
        self.batch_prompts = batch_prompts
        self.concurrency = concurrency
        self.timeout = timeout
        self.max_attempts = max_attempts
        self._served_as: set[str] = set()

    def identity(self) -> Mapping[str, Any]:
        """Return all that decides the scores as far as it can be known from outside."""
        return {
            "type": type(self).__name__,
            "base_url": self.base_url,
            "model": self.path,
            "tokenizer": source_identity(self.tokenizer_path, self.tokenizer_kwargs),
            "tokenizer_kwargs": as_plain_json(self.tokenizer_kwargs),
            **self.text_options(),
        }

    def provenance(self) -> Mapping[str, Any]:
        """Return what stands before each text, and the names the server gave itself."""
        import tokenizers
        import transformers

        return {
            "served_as": sorted(self._served_as),
            "prefix_ids": list(self.text_side.prefix_ids),
            "max_seq_len": self.max_seq_len,
            "versions": {
                "tokenizers": tokenizers.__version__,
                "transformers": transformers.__version__,
            },
        }

    @cached_property
    def text_side(self) -> TextSide:
        """How texts become token ids; loads the tokenizer."""
        from opencompass_ext.models.tokenizer import load_tokenizer, text_side_of

        tokenizer = load_tokenizer(local_source(self.tokenizer_path), self.tokenizer_kwargs)
        return text_side_of(tokenizer, prefix_token=self.prefix_token, max_seq_len=self.max_seq_len)

    def make_backend(self, *, batch_rows: int | None, token_details: bool) -> Backend:
        """Return what asks the endpoint.

        Raises:
            ConfigError: ``token_details`` is asked for.
            MissingDependencyError: A package of the extra ``api`` is missing.
        """
        if token_details:
            raise ConfigError(
                "token_details=True needs the rank of each token and the ids of its alternatives, "
                "which a completions endpoint does not report: score the weights with "
                "HuggingFaceBaseModel or VLLMModel, or leave token_details out"
            )
        try:
            from opencompass_ext.endpoints.posting import PostOptions
            from opencompass_ext.models.completions_client import (
                HINTS,
                CompletionsBackend,
                CompletionsOptions,
            )
        except ModuleNotFoundError as error:
            if error.name not in NEEDED_PACKAGES:
                raise
            raise MissingDependencyError(
                error.name, needed_for=type(self).__name__, extra="api"
            ) from error
        post = PostOptions(
            url=f"{self.base_url}/completions",
            key=read_key(self.key_env),
            key_env=self.key_env,
            timeout=self.timeout,
            max_attempts=self.max_attempts,
            hints=HINTS,
        )
        options = CompletionsOptions(
            post,
            model=self.path,
            max_tokens=self.max_tokens,
            batch_prompts=min(self.batch_prompts, batch_rows or self.batch_prompts),
            concurrency=self.concurrency,
        )
        return CompletionsBackend(
            options,
            token_text=self.text_side.encoder.token_text,
            note_model=self._served_as.add,
        )
