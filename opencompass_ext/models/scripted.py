"""A model without weights, whose every number can be worked out by hand, for tests and tries."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.errors import ModelError
from opencompass_ext.models.base import BaseModel
from opencompass_ext.records import LabelledText, Likelihood, ScoredText
from opencompass_ext.registry import MODELS


@MODELS.register_module()
class ScriptedModel(BaseModel):
    """One token per character, uniform over ``vocab_size`` tokens: each costs ln(vocab_size).

    Args:
        path: Free text; part of the identity.
        vocab_size: Size of the uniform distribution.
        batch_rows: Rows per batch.
        seconds_per_batch: Time each batch takes, to be able to interrupt a run.
        fail_on: A text that contains this raises ``ModelError``.
        die_on: A text that contains this kills the process as SIGKILL does, the first time only:
            the marker file ``die_marker`` is made on the way.
        die_marker: See ``die_on``.

    Example:
        >>> text = LabelledText("abcd", {"label": ((1, 3),)})
        >>> scored = ScriptedModel(vocab_size=2).score_all([text])[0].spans["label"]
        >>> scored.token_len, round(scored.nll, 6)
        (2, 1.386294)
    """

    def __init__(
        self,
        path: str = "uniform",
        vocab_size: int = 2,
        batch_rows: int = 4,
        seconds_per_batch: float = 0.0,
        fail_on: str | None = None,
        die_on: str | None = None,
        die_marker: str | None = None,
    ) -> None:
        self.path = path
        self.vocab_size = vocab_size
        self.batch_rows = batch_rows
        self.seconds_per_batch = seconds_per_batch
        self.fail_on = fail_on
        self.die_on = die_on
        self.die_marker = die_marker

    def identity(self) -> Mapping[str, Any]:
        """Return path and vocabulary size: nothing else decides the scores."""
        return {"type": "ScriptedModel", "path": self.path, "vocab_size": self.vocab_size}

    def score_spans(
        self,
        texts: Sequence[LabelledText],
        *,
        finished: Collection[int] = (),
        batch_rows: int | None = None,
        token_details: bool = False,
        prefix_token: str | None = None,
        long_text: str | None = None,
    ) -> Iterator[dict[int, ScoredText]]:
        """Yield scores for ``batch_rows`` rows at a time, in order.

        There are no token details; a prefix would change nothing, and no text is too long.
        """
        done = frozenset(finished)
        todo = [i for i in range(len(texts)) if i not in done]
        size = batch_rows or self.batch_rows
        for start in range(0, len(todo), size):
            batch = todo[start : start + size]
            for i in batch:
                self._misbehave(texts[i].text)
            time.sleep(self.seconds_per_batch)
            yield {i: self._score(texts[i]) for i in batch}

    def _score(self, labelled: LabelledText) -> ScoredText:
        spans = {}
        for name, ranges in labelled.spans.items():
            counted = {c for start, end in ranges for c in range(start, end)}
            counted_text = "".join(labelled.text[c] for c in sorted(counted))
            spans[name] = Likelihood(
                nll=len(counted) * math.log(self.vocab_size),
                token_len=len(counted),
                byte_len=len(counted_text.encode()),
            )
        return ScoredText(spans=spans, text_tokens=len(labelled.text))

    def _misbehave(self, text: str) -> None:
        if self.fail_on is not None and self.fail_on in text:
            raise ModelError(f"scripted failure on a text that contains {self.fail_on!r}")
        if self.die_on is None or self.die_on not in text:
            return
        if self.die_marker is not None:
            try:
                os.close(os.open(self.die_marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
        os.kill(os.getpid(), 9)
