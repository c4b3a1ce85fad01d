"""Ask a chat completions endpoint: many calls at once, in the order of their arrival back.

Requests run on an event loop in a thread of its own, so this works from any thread and inside a
loop that runs already. Calls are taken from their generator, and replies given, in the caller's
thread.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal

from opencompass_ext.endpoints.posting import REDIRECTS, Poster, PostFailure, PostOptions
from opencompass_ext.errors import ModelError
from opencompass_ext.judging.base import Call, Reply
from opencompass_ext.judging.chat_reply import is_too_long, to_failed_reply, to_reply
from opencompass_ext.judging.limits import AdaptiveLimit, RateLimit
from opencompass_ext.judging.reply_format import ReplyFormat, speaks_of_format
from opencompass_ext.judging.tasks import Tasks

# Statuses that speak of the endpoint, not of one request: asking further would be in vain.
_USELESS = (*REDIRECTS, 401, 402, 403, 404, 405)
# Requests in a row, the first of a run, that may be refused before the run ends.
_MOST_REFUSALS = 3


@dataclass(frozen=True)
class ChatOptions:
    """How to ask.

    Attributes:
        post: Where the endpoint is, and how often it is tried.
        body: What every request says: model, temperature and so on.
        max_tokens_key: What the endpoint calls the limit of a reply; None to send none.
        reply_format: See ``ReplyFormat``.
        concurrency: Most requests at once.
        requests_per_minute: Most requests a minute; None for no limit.
        give_up_after: Calls in a row without an answer that end the run.
    """

    post: PostOptions
    body: Mapping[str, Any] = field(repr=False)
    max_tokens_key: str | None
    reply_format: str
    concurrency: int
    requests_per_minute: int | None
    give_up_after: int


class ChatClient:
    """Asks one endpoint; remembers over calls what it can do.

    Args:
        options: See ``ChatOptions``.
    """

    def __init__(self, options: ChatOptions) -> None:
        self._options = options
        self._limit = AdaptiveLimit(options.concurrency)
        self._format = ReplyFormat(options.reply_format, options.post.url)
        rate = RateLimit(options.requests_per_minute)
        self._poster = Poster(options.post, rate.wait, self._note_failure)
        self._has_answered = False
        self._without_answer = 0

    def ask(self, calls: Iterable[Call]) -> Iterator[tuple[int, Reply]]:
        """Yield replies with the numbers of their calls, as they come; see ``BaseJudge.ask``."""
        numbered = enumerate(calls)
        first = next(numbered, None)
        if first is None:
            return
        todo = itertools.chain([first], numbered)
        ended: list[tuple[int, asyncio.Task[Reply]]] = []
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            client = stack.enter_context(
                portal.wrap_async_context_manager(self._poster.client(self._options.concurrency))
            )
            tasks: Tasks[Reply] = Tasks(portal.call(asyncio.get_running_loop))
            # Before the client is closed, which would make requests fail and try again.
            stack.callback(portal.call, tasks.cancel)
            while True:
                replies, error = self._read(ended)
                if error is None:
                    room = self._room() - tasks.running
                    some = itertools.islice(todo, max(0, room))
                    tasks.start({number: self._answer(client, call) for number, call in some})
                # What was answered beside an error has been paid for.
                yield from replies
                if error is not None:
                    raise error
                ended = tasks.wait()
                if not ended:
                    return

    def _room(self) -> int:
        # Until the form of replies is settled, one call at a time finds it out.
        return self._limit.now if self._format.is_settled else 1

    def _read(
        self, ended: Iterable[tuple[int, asyncio.Task[Reply]]]
    ) -> tuple[list[tuple[int, Reply]], ModelError | None]:
        """Return the replies, and the error that says that the endpoint is of no use."""
        replies: list[tuple[int, Reply]] = []
        useless: ModelError | None = None
        for number, task in ended:
            try:
                replies.append((number, task.result()))
            except ModelError as error:
                useless = useless or error
        return replies, useless

    async def _answer(self, client: httpx.AsyncClient, call: Call) -> Reply:
        earlier: list[Reply] = []
        refused = 0
        while True:
            asked_as = self._format.now
            try:
                posted = await self._poster.post(client, self._body(call))
                reply = to_reply(posted, asked_as)
            except PostFailure as failure:
                failure.attempts += refused
                if self._is_about_format(failure) and self._format.step_down(failure.said):
                    refused = failure.attempts
                    continue
                return replace(self._refused(failure, asked_as), earlier=tuple(earlier))
            self._limit.grow()
            self._has_answered, self._without_answer = True, 0
            reply = replace(reply, attempts=reply.attempts + refused)
            if self._format.note_reply(call, reply):
                return replace(reply, earlier=tuple(earlier))
            earlier.append(reply)
            refused = 0

    def _body(self, call: Call) -> dict[str, Any]:
        limit = (
            {}
            if self._options.max_tokens_key is None
            else {self._options.max_tokens_key: call.max_tokens}
        )
        return {
            **self._options.body,
            **limit,
            **self._format.in_body(call),
            "messages": self._format.messages(call),
        }

    def _is_about_format(self, failure: PostFailure) -> bool:
        if failure.kind != "refused" or failure.status in _USELESS or is_too_long(failure.said):
            return False
        return not self._format.is_settled or speaks_of_format(failure.said)

    def _refused(self, failure: PostFailure, asked_as: str) -> Reply:
        """Return the reply that says why there is none, or end the run."""
        if failure.kind == "cannot_connect" or failure.status in _USELESS:
            raise self._error(str(failure))
        if failure.kind == "refused" and not self._format.is_settled:
            self._format.start_over()
        reply = to_failed_reply(failure, asked_as)
        if reply.reason != "too_long_for_judge":
            self._check_patience(failure)
        return reply

    def _check_patience(self, failure: PostFailure) -> None:
        self._without_answer += 1
        most = self._options.give_up_after
        if not self._has_answered:
            most = min(most, _MOST_REFUSALS)
        if self._without_answer >= most:
            raise self._error(
                f"{self._without_answer} requests in a row got no answer, the last one: {failure}"
            )

    def _note_failure(self, failure: PostFailure) -> None:
        if failure.kind == "rate_limited":
            self._limit.shrink()

    def _error(self, reason: str) -> ModelError:
        return ModelError(f"the judge at {self._options.post.url}: {reason}")
