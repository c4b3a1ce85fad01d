"""Score pieces through a completions endpoint that echoes prompts, several requests at once.

Requests run on an event loop in a thread of its own; leaving ``run`` early, by an error or Ctrl-C,
cancels those that are still under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

from opencompass_ext.endpoints.posting import Poster, PostFailure, PostOptions
from opencompass_ext.errors import ModelError
from opencompass_ext.likelihood.pieces import Piece, ScoredTargets
from opencompass_ext.models.completions_reply import read_reply
from opencompass_ext.models.piece_batches import PieceScores, join_scores, wanted_batches

HINTS = {
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
        post: Where it is, and how often it is tried.
        model: Name of the model there.
        max_tokens: Tokens to generate after each prompt, 0 or 1.
        batch_prompts: Most prompts per request.
        concurrency: Most requests at once.
    """

    post: PostOptions
    model: str
    max_tokens: int
    batch_prompts: int
    concurrency: int


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
        self._poster = Poster(options.post)
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
            portal.wrap_async_context_manager(
                self._poster.client(self.options.concurrency)
            ) as client,
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
        try:
            return (await self._poster.post(client, body)).content
        except PostFailure as failure:
            raise self._failure(str(failure)) from failure

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
        return ModelError(f"{self.options.post.url}: {reason}")
