"""A judge behind any OpenAI-compatible chat completions endpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opencompass_ext.checks import check_least
from opencompass_ext.endpoints import NEEDED_PACKAGES
from opencompass_ext.endpoints.address import (
    check_key_env,
    check_seconds,
    checked_base_url,
    checked_model_name,
    read_key,
)
from opencompass_ext.errors import ConfigError, MissingDependencyError
from opencompass_ext.judging.base import REPLY_FORMATS, BaseJudge, Call, Reply
from opencompass_ext.registry import JUDGES

if TYPE_CHECKING:
    from opencompass_ext.judging.chat_client import ChatClient

_FORMATS = ("auto", *REPLY_FORMATS)
_HINTS = {
    404: "Check url, which usually ends in /v1, and model, the name it is served under",
    400: "Check model and extra_body",
    422: "Check model and extra_body",
}


@JUDGES.register_module()
class EndpointJudge(BaseJudge):
    """Asks through ``POST <url>/chat/completions``.

    Needs the extra ``judge``.

    Args:
        url: Such as ``"https://host/v1"``; default: the environment variable ``OPENAI_BASE_URL``.
        model: Name of the model as the server knows it; default: the environment variable
            ``OPENAI_MODEL``.
        key_env: The environment variable that holds the key, sent as a bearer token. Where it is
            not set no key is sent. The key itself never stands in a config.
        max_tokens: Most tokens of a reply, thinking included.
        max_tokens_key: What the endpoint calls that limit; ``"max_completion_tokens"`` for some
            reasoning models, None to leave it to the endpoint.
        context_tokens: Tokens of prompt and reply together that the model takes: longer sources are
            read in parts. None leaves it to the endpoint, which refuses what is too long.
        temperature: 0 for the most likely reply; None to leave it to the endpoint.
        seed: Sent where it is given.
        extra_body: Further fields of every request, such as ``dict(reasoning_effort="low")``.
        response_format: How JSON is asked for: ``"json_schema"``, ``"json_object"``, ``"text"``, or
            ``"auto"`` to find out what the endpoint can do.
        concurrency: Most requests at once; fewer for a while where the endpoint says it is busy.
        requests_per_minute: Most requests a minute, attempts counted; None for no limit.
        timeout: Seconds without a byte from the server before an attempt counts as failed.
        deadline: Seconds that all attempts of one request and the waits between them may take,
            those that ``requests_per_minute`` asks for apart.
        max_attempts: How often a request is tried when the server is busy (429), fails (5xx) or
            does not answer. ``Retry-After`` is obeyed.
        give_up_after: Requests in a row without an answer that end the run.

    Raises:
        ConfigError: An option has a value it cannot have.
        ModelError: Neither the config nor the environment says where the endpoint is, or which
            model to ask.
    """

    def __init__(
        self,
        model: str | None = None,
        url: str | None = None,
        key_env: str = "OPENAI_API_KEY",
        max_tokens: int = 4096,
        max_tokens_key: str | None = "max_tokens",
        context_tokens: int | None = None,
        temperature: float | None = 0.0,
        seed: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        response_format: str = "auto",
        concurrency: int = 8,
        requests_per_minute: int | None = None,
        timeout: float = 120.0,
        deadline: float = 600.0,
        max_attempts: int = 5,
        give_up_after: int = 20,
    ) -> None:
        check_least(
            1,
            max_tokens=max_tokens,
            concurrency=concurrency,
            max_attempts=max_attempts,
            give_up_after=give_up_after,
        )
        check_least(
            1,
            may_be_none=True,
            context_tokens=context_tokens,
            requests_per_minute=requests_per_minute,
        )
        check_seconds(timeout=timeout, deadline=deadline)
        check_key_env(key_env)
        if response_format not in _FORMATS:
            raise ConfigError(
                f"response_format must be one of {', '.join(_FORMATS)}, got {response_format!r}"
            )
        _check_json(extra_body)
        self.model = checked_model_name(model)
        self.url = checked_base_url(url, "/chat/completions", key="url")
        self.key_env = key_env
        self.max_tokens = max_tokens
        self.max_tokens_key = max_tokens_key
        self.temperature = temperature
        self.seed = seed
        self.extra_body = dict(extra_body or {})
        self.response_format = response_format
        self.concurrency = concurrency
        self.requests_per_minute = requests_per_minute
        self.timeout = timeout
        self.deadline = deadline
        self.max_attempts = max_attempts
        self.give_up_after = give_up_after
        self._context_tokens = context_tokens

    def identity(self) -> Mapping[str, Any]:
        """Return endpoint, model and all that a request says besides the prompt."""
        return {
            "type": type(self).__name__,
            "url": self.url,
            **self._body(),
            "response_format": self.response_format,
            "max_tokens_key": self.max_tokens_key,
        }

    @property
    def context_tokens(self) -> int | None:
        """Tokens of prompt and reply together that the model takes."""
        return self._context_tokens

    def ask(self, calls: Iterable[Call]) -> Iterator[tuple[int, Reply]]:
        """Yield replies as they come; see ``BaseJudge.ask``.

        Raises:
            MissingDependencyError: A package of the extra ``judge`` is missing.
            ModelError: The endpoint cannot be reached, refuses the key, or answers nothing.
        """
        yield from self._client.ask(calls)

    def _body(self) -> dict[str, Any]:
        body = {"model": self.model, "temperature": self.temperature, "seed": self.seed}
        return {**{k: v for k, v in body.items() if v is not None}, **self.extra_body}

    @cached_property
    def _client(self) -> ChatClient:
        try:
            from opencompass_ext.endpoints.posting import PostOptions
            from opencompass_ext.judging.chat_client import ChatClient, ChatOptions
        except ModuleNotFoundError as error:
            if error.name not in NEEDED_PACKAGES:
                raise
            raise MissingDependencyError(
                error.name, needed_for=type(self).__name__, extra="judge"
            ) from error
        post = PostOptions(
            url=f"{self.url}/chat/completions",
            key=read_key(self.key_env),
            key_env=self.key_env,
            timeout=self.timeout,
            max_attempts=self.max_attempts,
            deadline=self.deadline,
            waits_for_server=False,
            hints=_HINTS,
        )
        return ChatClient(
            ChatOptions(
                post=post,
                body=self._body(),
                max_tokens_key=self.max_tokens_key,
                reply_format=self.response_format,
                concurrency=self.concurrency,
                requests_per_minute=self.requests_per_minute,
                give_up_after=self.give_up_after,
            )
        )


def _check_json(extra_body: object) -> None:
    try:
        json.dumps(extra_body, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"extra_body must be what JSON can hold: {error}") from error
