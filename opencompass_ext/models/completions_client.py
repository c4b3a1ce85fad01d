"""Ask a completions endpoint to echo prompts: several requests at once, one layer of retries.

Imports httpx, tenacity and anyio. Requests run on an event loop in a thread of its own; leaving
``run`` early, by an error or Ctrl-C, cancels those that are still under way.
"""

from __future__ import annotations

import email.utils
import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import tenacity
from anyio.from_thread import start_blocking_portal

from opencompass_ext.errors import ModelError
from opencompass_ext.likelihood.pieces import Piece, ScoredTargets
from opencompass_ext.models.completions_reply import read_reply
from opencompass_ext.models.piece_batches import PieceScores, join_scores, wanted_batches

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
# A server that asks for more than this is not worth a waiting process.
LONGEST_RETRY_AFTER_SECONDS = 600.0

_HINTS = {
    400: (
        "If a prompt is too long for it, set max_seq_len; if it objects to max_tokens=0, set "
        "max_tokens=1; if it takes one prompt a request, set batch_prompts=1"
    ),
    404: "Check base_url, which usually ends in /v1, and path, the name the model is served under",
    413: "Lower batch_prompts",
}


@dataclass(frozen=True)
class CompletionsOptions:
    """How to ask an endpoint.

    Attributes:
        url: Of the endpoint itself.
        model: Name of the model there.
        key: Bearer token; None to send none.
        key_env: The environment variable it is read from.
        max_tokens: Tokens to generate after each prompt, 0 or 1.
        batch_prompts: Most prompts per request.
        concurrency: Most requests at once.
        timeout: Seconds without a byte from the server before a request counts as failed.
        max_attempts: How often a request is tried.
    """

    url: str
    model: str
    key: str | None = field(repr=False)
    key_env: str
    max_tokens: int
    batch_prompts: int
    concurrency: int
    timeout: float
    max_attempts: int


class CompletionsBackend:
    """Scores pieces with a completions endpoint.

    Args:
        options: See ``CompletionsOptions``.
        token_text: Text of one token, by the tokenizer that made the ids.
        note_model: Called with the name that each reply gives the model: where the name asked for
            is an alias, this one may tell the version.
    """

    def __init__(
        self,
        options: CompletionsOptions,
        token_text: Callable[[int], str],
        note_model: Callable[[str], None],
    ) -> None:
        self.options = options
        self._token_text = token_text
        self._note_model = note_model

    def run(
        self, pieces: Sequence[Piece], is_wanted: Callable[[int], bool] = lambda piece: True
    ) -> Iterator[ScoredTargets]:
        """Score all targets of the wanted pieces; only these are sent, neighbours together.

        Yields:
            The scores of one request, as requests finish.

        Raises:
            ModelError: The server refuses, cannot be reached, or gives no scores.
        """
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(self._client()) as client,
        ):
            slots = anyio.Semaphore(self.options.concurrency)
            asked: set[Future[ScoredTargets]] = {
                portal.start_task_soon(self._score, client, slots, pieces, batch)
                for batch in wanted_batches(pieces, is_wanted, self.options.batch_prompts)
            }
            try:
                for answered in as_completed(asked):
                    asked.discard(answered)
                    yield answered.result()
            finally:
                # Before the client is closed, which would make them fail and try again.
                for unanswered in asked:
                    unanswered.cancel()

    def _client(self) -> httpx.AsyncClient:
        key = self.options.key
        return httpx.AsyncClient(
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(
                self.options.timeout, connect=min(self.options.timeout, CONNECT_SECONDS)
            ),
            limits=httpx.Limits(max_connections=self.options.concurrency),
        )

    async def _score(
        self,
        client: httpx.AsyncClient,
        slots: anyio.Semaphore,
        pieces: Sequence[Piece],
        batch: Sequence[int],
    ) -> ScoredTargets:
        # A request keeps its slot while it waits for its next attempt: a busy server is asked less.
        async with slots:
            reply = await self._ask(client, [pieces[index].ids.tolist() for index in batch])
        return self._collect(pieces, batch, reply)

    async def _ask(self, client: httpx.AsyncClient, prompts: list[list[int]]) -> Any:
        """Return the decoded reply to one request."""
        body = {
            "model": self.options.model,
            "prompt": prompts,
            "echo": True,
            "logprobs": 1,
            "max_tokens": self.options.max_tokens,
            "temperature": 0,
        }
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_Unavailable),
            stop=tenacity.stop_after_attempt(self.options.max_attempts),
            wait=_seconds_to_wait,
            before_sleep=self._log_retry,
            reraise=True,
        )
        try:
            return await retrying(self._post, client, body)
        except _Unavailable as error:
            attempts = self.options.max_attempts
            raise self._failure(f"{error} ({attempts} attempts)") from error

    async def _post(self, client: httpx.AsyncClient, body: Mapping[str, Any]) -> Any:
        try:
            response = await client.post(self.options.url, json=body)
        except httpx.ConnectError as error:
            raise _Unavailable(f"cannot connect: {error}. Is the server running?") from error
        except httpx.TimeoutException as error:
            raise _Unavailable(f"no answer within {self.options.timeout:g} s") from error
        except httpx.RequestError as error:
            raise _Unavailable(f"{type(error).__name__}: {error}") from error
        status = response.status_code
        if status == 429 or status >= 500:
            retry_after = _retry_after(response.headers.get("retry-after"))
            if retry_after is not None and retry_after > LONGEST_RETRY_AFTER_SECONDS:
                raise self._failure(
                    f"HTTP {status}: {self._message(response)} (asks to be left alone for "
                    f"{retry_after:.0f} s)"
                )
            raise _Unavailable(f"HTTP {status}: {self._message(response)}", retry_after)
        if status != 200:
            raise self._failure(f"HTTP {status}: {self._message(response)}. {self._hint(status)}")
        try:
            return response.json()
        except ValueError as error:
            raise _Unavailable(
                f"the reply of {len(response.content)} bytes is no valid JSON: "
                f"{self._shorten(str(error))}"
            ) from error

    def _collect(self, pieces: Sequence[Piece], batch: Sequence[int], reply: Any) -> ScoredTargets:
        prompts = [pieces[index].ids for index in batch]
        try:
            logprobs = read_reply(
                reply,
                prompts,
                max_tokens=self.options.max_tokens,
                token_text=self._token_text,
            )
        except ModelError as error:
            raise self._failure(str(error)) from error
        if isinstance(reply.get("model"), str):
            self._note_model(reply["model"])
        return join_scores(
            batch,
            [
                PieceScores(nll=-row[pieces[index].targets])
                for index, row in zip(batch, logprobs, strict=True)
            ],
        )

    def _failure(self, reason: str) -> ModelError:
        return ModelError(f"{self.options.url}: {reason}")

    def _log_retry(self, state: tenacity.RetryCallState) -> None:
        logger.warning(
            "%s: %s; attempt %d of %d in %.1f s",
            self.options.url,
            state.outcome.exception() if state.outcome else "",
            state.attempt_number + 1,
            self.options.max_attempts,
            state.upcoming_sleep,
        )

    def _hint(self, status: int) -> str:
        if status in (401, 403):
            variable = f"the environment variable {self.options.key_env}"
            if self.options.key is None:
                return f"No key was sent: {variable} is not set"
            return f"The key sent is that of {variable}"
        return _HINTS.get(status, "Asking again would not help")

    def _message(self, response: httpx.Response) -> str:
        """Return what the server says is wrong."""
        try:
            said = response.json()
        except ValueError:
            return self._shorten(response.text)
        for name in ("error", "message", "detail"):
            if isinstance(said, Mapping) and name in said:
                said = said[name]
        return self._shorten(said if isinstance(said, str) else str(said))

    def _shorten(self, text: str) -> str:
        # Servers quote what they were sent, and the key must reach neither logs nor errors.
        if self.options.key:
            text = text.replace(self.options.key, "<key>")
        return " ".join(text.split())[:300].rstrip(".") or "(no message)"


class _Unavailable(Exception):
    """The server did not answer, and may if it is asked again."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def _seconds_to_wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, _Unavailable) and error.retry_after is not None:
        return error.retry_after
    backoff = tenacity.wait_exponential(FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS)
    # Requests that failed together are not to come back together.
    return backoff(state) + random.uniform(0, FIRST_WAIT_SECONDS)


def _retry_after(header: str | None) -> float | None:
    """Return the seconds a ``Retry-After`` header asks for; None if it says nothing usable.

    Example:
        >>> _retry_after("2"), _retry_after("soon"), _retry_after("Thu, 01 Jan 1970 00:00:00 GMT")
        (2.0, None, 0.0)
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
