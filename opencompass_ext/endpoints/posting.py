"""POST JSON to an endpoint until it answers: one layer of retries, bounded in number and time.

answered, status 200                   -> Posted
cannot connect, no answer, 429, 5xx    -> wait (Retry-After, else longer each time), try again;
or a body that is no JSON, or an          PostFailure when attempts or time are used up
error in place of an answer
any other status                       -> PostFailure at once
"""

from __future__ import annotations

import email.utils
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import aiohttp
import anyio
import httpx
import tenacity
from httpx_aiohttp import HttpxAiohttpClient

from opencompass_ext.endpoints.server_words import HIDDEN_KEY, error_in, without_key, words_of
from opencompass_ext.words import counted

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
# A server that asks for more than this is not worth a waiting process.
LONGEST_RETRY_AFTER_SECONDS = 600.0

REDIRECTS = (301, 302, 303, 307, 308)

FailureKind = Literal["refused", "cannot_connect", "timeout", "rate_limited", "unavailable"]


@dataclass(frozen=True)
class PostOptions:
    """Where and how to ask.

    Attributes:
        url: Of the endpoint itself.
        key: Bearer token; None to send none.
        key_env: The environment variable it is read from.
        timeout: Seconds without a byte from the server before an attempt counts as failed.
        max_attempts: How often a request is tried.
        deadline: Seconds that all attempts of a request and the waits between them may take, those
            for ``before_attempt`` apart; None for no limit.
        waits_for_server: Whether to try again when not even a first connection is to be had.
        hints: What to do about a status, by status.
    """

    url: str
    key: str | None = field(repr=False)
    key_env: str
    timeout: float
    max_attempts: int
    deadline: float | None = None
    waits_for_server: bool = True
    hints: Mapping[int, str] = field(default_factory=dict)


class Posted(NamedTuple):
    """An answer.

    Attributes:
        content: The decoded JSON.
        attempts: How often the request was sent.
        seconds: Wall time, waits included.
    """

    content: Any
    attempts: int
    seconds: float


class PostFailure(Exception):
    """A request without an answer that can be used; the text says why.

    Attributes:
        kind: What happened, at the last attempt.
        status: HTTP status; None where there was none.
        said: What the server said.
        attempts: How often the request was sent.
        seconds: Wall time, waits included.
    """

    def __init__(
        self, reason: str, kind: FailureKind, status: int | None = None, said: str = ""
    ) -> None:
        super().__init__(reason)
        self.kind: FailureKind = kind
        self.status = status
        self.said = said
        self.attempts = 1
        self.seconds = 0.0


class _Unavailable(PostFailure):
    """The server did not answer, and may if it is asked again."""

    retry_after: float | None = None


class Poster:
    """Asks one endpoint.

    Args:
        options: See ``PostOptions``.
        before_attempt: Awaited before each attempt: the place for a limit of requests a minute.
        after_failure: Called with each failure that is followed by another attempt.
    """

    def __init__(
        self,
        options: PostOptions,
        before_attempt: Callable[[], Awaitable[None]] | None = None,
        after_failure: Callable[[PostFailure], None] | None = None,
    ) -> None:
        self.options = options
        self._before_attempt = before_attempt
        self._after_failure = after_failure
        self._has_answered = False

    def client(self, connections: int) -> httpx.AsyncClient:
        """Return a client with the key in its headers and room for so many connections."""
        key, timeout = self.options.key, self.options.timeout
        # On aiohttp, whose parser is compiled: half the processor time a request of httpx alone.
        return HttpxAiohttpClient(
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        )

    async def post(self, client: httpx.AsyncClient, body: Mapping[str, Any]) -> Posted:
        """Return the answer to ``body``.

        Raises:
            PostFailure: There is none.
        """
        started = time.monotonic()
        last: _Unavailable | None = None
        attempts = 0

        async def attempt() -> Any:
            nonlocal last, attempts
            await self._wait_for_turn(scope)
            attempts += 1
            try:
                return await self._attempt(client, body)
            except _Unavailable as failure:
                last = failure
                raise

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(self._is_worth_another),
            stop=tenacity.stop_after_attempt(self.options.max_attempts),
            wait=_seconds_to_wait,
            before_sleep=self._before_sleep,
            reraise=True,
        )
        failure: PostFailure
        try:
            with anyio.fail_after(self.options.deadline) as scope:
                content: Any = await retrying(attempt)
            return Posted(content, attempts, time.monotonic() - started)
        except TimeoutError:
            failure = self._late(last)
        except _Unavailable as unavailable:
            failure = PostFailure(
                f"{unavailable} ({counted(attempts, 'attempt')})",
                unavailable.kind,
                unavailable.status,
                unavailable.said,
            )
        except PostFailure as refused:
            failure = refused
        failure.attempts, failure.seconds = attempts, time.monotonic() - started
        raise failure

    def _late(self, last: _Unavailable | None) -> PostFailure:
        reason = f"no answer within {self.options.deadline:g} s (deadline)"
        if last is None:
            return PostFailure(reason, "timeout")
        return PostFailure(f"{reason}; before that: {last}", last.kind)

    async def _wait_for_turn(self, scope: anyio.CancelScope) -> None:
        """Await ``before_attempt`` while the deadline stands still: no server is late there."""
        if self._before_attempt is None:
            return
        left = scope.deadline - anyio.current_time()
        scope.deadline = math.inf
        await self._before_attempt()
        scope.deadline = anyio.current_time() + left

    async def _attempt(self, client: httpx.AsyncClient, body: Mapping[str, Any]) -> Any:
        try:
            response = await client.post(self.options.url, json=body)
        except (httpx.RequestError, aiohttp.ClientError) as error:
            raise self._without_response(error) from error
        self._has_answered = True
        if response.status_code != 200:
            raise self._refusal(response.status_code, self._said(response), response)
        try:
            content = response.json()
        except ValueError as error:
            begins = self._shorten(response.text[:80])
            reason = (
                f"the reply of {len(response.content)} bytes is no valid JSON "
                f"({self._shorten(str(error))}), it begins: {begins}"
            )
            raise _Unavailable(reason, "unavailable", 200) from error
        instead = error_in(content)
        if instead is not None:
            said, status = instead
            raise self._refusal(status or 200, self._shorten(words_of(said)), response)
        return without_key(content, self.options.key)

    def _without_response(self, error: Exception) -> _Unavailable:
        # httpx_aiohttp calls every connection that breaks a time-out: aiohttp's own error tells.
        cause = error.__cause__ or error
        if isinstance(cause, aiohttp.ClientProxyConnectionError):
            reason = (
                f"cannot connect to the proxy of the environment: {cause.os_error}. NO_PROXY names "
                "hosts to be reached without it"
            )
            return _Unavailable(reason, "cannot_connect")
        if isinstance(cause, aiohttp.ClientConnectorError):
            reason = f"cannot connect: {cause.os_error}. Is the server running?"
            return _Unavailable(reason, "cannot_connect")
        if isinstance(cause, TimeoutError):
            return _Unavailable(f"no answer within {self.options.timeout:g} s (timeout)", "timeout")
        return _Unavailable(f"{type(cause).__name__}: {cause}", "unavailable")

    def _refusal(self, status: int, said: str, response: httpx.Response) -> PostFailure:
        if status in REDIRECTS:
            place = self._shorten(response.headers.get("location", ""))
            reason = f"HTTP {status}: redirects to {place}. Put the address it means in the config"
            return PostFailure(reason, "refused", status, said)
        if status != 429 and status < 500 and status != 200:
            reason = f"HTTP {status}: {said}. {self._hint(status)}"
            return PostFailure(reason, "refused", status, said)
        kind: FailureKind = "rate_limited" if status == 429 else "unavailable"
        wait = seconds_of_retry_after(response.headers.get("retry-after"))
        longest = min(LONGEST_RETRY_AFTER_SECONDS, self.options.deadline or math.inf)
        if wait is not None and wait > longest:
            reason = f"HTTP {status}: {said} (asks to be left alone for {wait:.0f} s)"
            return PostFailure(reason, kind, status, said)
        failure = _Unavailable(f"HTTP {status}: {said}", kind, status, said)
        failure.retry_after = wait
        return failure

    def _is_worth_another(self, error: BaseException) -> bool:
        if not isinstance(error, _Unavailable):
            return False
        is_first_contact = error.kind == "cannot_connect" and not self._has_answered
        return self.options.waits_for_server or not is_first_contact

    def _before_sleep(self, state: tenacity.RetryCallState) -> None:
        failure = state.outcome.exception() if state.outcome else None
        if self._after_failure is not None and isinstance(failure, PostFailure):
            self._after_failure(failure)
        logger.warning(
            "%s: %s; attempt %d of %d in %.1f s",
            self.options.url,
            failure,
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
        return self.options.hints.get(status, "Asking again would not help")

    def _said(self, response: httpx.Response) -> str:
        """Return what the server says is wrong."""
        try:
            said = response.json()
        except ValueError:
            return self._shorten(response.text)
        return self._shorten(words_of(said))

    def _shorten(self, text: str) -> str:
        # Servers quote what they were sent, and the key must reach neither logs nor errors.
        if self.options.key:
            text = text.replace(self.options.key, HIDDEN_KEY)
        text = text.encode("utf-8", "replace").decode()
        return " ".join(text.split())[:300].rstrip(".") or "(no message)"


def _seconds_to_wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    # "0" is no advice: all would be tried again at once until nothing is left to try.
    if isinstance(error, _Unavailable) and error.retry_after:
        return error.retry_after
    backoff = tenacity.wait_exponential(FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS)
    # Requests that failed together are not to come back together.
    return backoff(state) + random.uniform(0, FIRST_WAIT_SECONDS)


def seconds_of_retry_after(header: str | None) -> float | None:
    """Return the seconds a ``Retry-After`` header asks for; None if it says nothing usable.

    Example:
        >>> seconds_of_retry_after("2"), seconds_of_retry_after("soon")
        (2.0, None)
        >>> seconds_of_retry_after("Thu, 01 Jan 1970 00:00:00 GMT")
        0.0
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
