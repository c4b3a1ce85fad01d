"""From labelled texts to their likelihoods: the one primitive everything else is built on.

    texts --encode--> token ids, ranges --spans--> target tokens --windows--> pieces --merge-->
    distinct pieces --engine--> NLL per target --> sums per span, in the order texts finish

Texts are taken in chunks of fixed size. While the device reads one chunk, the next is tokenised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from opencompass_ext.errors import TextError
from opencompass_ext.likelihood.encoding import encode_parts
from opencompass_ext.likelihood.pieces import Piece, Place, ScoredTargets, cut_windows, merge_pieces
from opencompass_ext.likelihood.spans import EncodedText, IntArray, count_tokens, utf8_length
from opencompass_ext.records import LabelledText, Likelihood, ScoredText, TokenDetails

# Rows tokenised and sorted together: enough for batches of like length, few enough to start soon.
CHUNK_ROWS = 2048


class Encoder(Protocol):
    """Tokenises texts; see ``TextEncoder``."""

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """Return ids and character ranges of each text."""

    def token_text(self, token_id: int) -> str:
        """Return the text of one token."""


class Backend(Protocol):
    """Scores the targets of pieces; see ``Engine``."""

    def run(
        self, pieces: Sequence[Piece], is_wanted: Callable[[int], bool]
    ) -> Iterator[ScoredTargets]:
        """Score all targets of the wanted pieces, batch by batch."""


@dataclass(frozen=True)
class ScorerOptions:
    """What stands before a text, and what happens to one that is too long.

    Attributes:
        prefix_ids: Tokens put before every text and every window, never counted.
        max_seq_len: Tokens the model takes at once, prefix included; None for no limit.
        long_text: ``"window"`` scores a longer text in overlapping windows, ``"truncate"`` keeps
            its beginning as OpenCompass does, ``"error"`` refuses it.
        stride: Context tokens kept from one window to the next; None for half the window.
        alone_above: See ``EngineOptions``.
        token_details: Whether to keep each counted token's NLL, rank and alternatives.
    """

    prefix_ids: tuple[int, ...] = ()
    max_seq_len: int | None = None
    long_text: str = "window"
    stride: int | None = None
    alone_above: int | None = None
    token_details: bool = False

    @property
    def max_text_tokens(self) -> int | None:
        """Tokens of a text the model takes at once."""
        return None if self.max_seq_len is None else self.max_seq_len - len(self.prefix_ids)

    @property
    def window_stride(self) -> int:
        """Context tokens kept from one window to the next."""
        if self.max_text_tokens is None:
            return 0
        return self.max_text_tokens // 2 if self.stride is None else self.stride


class _CountedSpan(NamedTuple):
    """The counted tokens of one span name in one text, before any score."""

    scored: IntArray  # token indices with a prediction
    unscored: int
    truncated: int
    unaligned_chars: int
    byte_len: int


class _PlannedText(NamedTuple):
    """A text and where the scores of its tokens will be found."""

    labelled: LabelledText
    encoded: EncodedText
    spans: Mapping[str, _CountedSpan]
    targets: IntArray  # token indices scored, all names together, ascending
    windows: list[IntArray]  # the targets of each window
    places: list[Place]
    long_text: str


class _PlannedChunk(NamedTuple):
    first_row: int
    texts: list[_PlannedText]
    pieces: list[Piece]


class SpanScorer:
    """Scores labelled texts with a backend.

    Args:
        encoder: Tokenises texts.
        backend: Scores target tokens.
        options: See ``ScorerOptions``.
    """

    def __init__(self, encoder: Encoder, backend: Backend, options: ScorerOptions) -> None:
        self.encoder = encoder
        self.backend = backend
        self.options = options

    def score(
        self, texts: Sequence[LabelledText], *, finished: Collection[int] = ()
    ) -> Iterator[dict[int, ScoredText]]:
        """Yield scores by index of the text, as batches finish. Finished texts are left out."""
        done = frozenset(finished)
        starts = [
            start
            for start in range(0, len(texts), CHUNK_ROWS)
            if any(i not in done for i in range(start, min(start + CHUNK_ROWS, len(texts))))
        ]
        followings = [*starts[1:], None] if starts else []
        with ThreadPoolExecutor(max_workers=1) as tokenising:
            ahead = None
            for start, following in zip(starts, followings, strict=True):
                chunk = self._plan(texts, start) if ahead is None else ahead.result()
                ahead = (
                    None if following is None else tokenising.submit(self._plan, texts, following)
                )
                yield from self._score_chunk(chunk, done)

    def _plan(self, texts: Sequence[LabelledText], start: int) -> _PlannedChunk:
        chunk = texts[start : start + CHUNK_ROWS]
        _check_unicode(chunk, start)
        encoded = encode_parts(self.encoder.encode, chunk)
        planned = []
        pieces: list[Piece] = []
        for row, (labelled, text) in enumerate(zip(chunk, encoded, strict=True), start=start):
            planned.append(self._plan_text(row, labelled, text, pieces))
        merged, places = merge_pieces(pieces, alone_above=self.options.alone_above)
        texts_with_places = []
        used = 0
        for plan in planned:
            own = places[used : used + len(plan.windows)]
            used += len(plan.windows)
            texts_with_places.append(plan._replace(places=own))
        return _PlannedChunk(start, texts_with_places, merged)

    def _plan_text(
        self, row: int, labelled: LabelledText, encoded: EncodedText, pieces: list[Piece]
    ) -> _PlannedText:
        """Plan one text and append the pieces it needs to ``pieces``."""
        prefix = np.array(self.options.prefix_ids, dtype=np.int64)
        begins_with_prefix = np.array_equal(encoded.ids[: len(prefix)], prefix)
        limit = self.options.max_text_tokens
        tokens = len(encoded.ids)
        treatment = "whole" if limit is None or tokens <= limit else self.options.long_text
        if treatment == "error":
            raise TextError(
                row,
                f"the text has {tokens} tokens and the model takes {limit}; set "
                "long_text='window' to score it in overlapping windows",
            )
        kept = limit if treatment == "truncate" and limit is not None else tokens
        first_scored = 1 if begins_with_prefix else 0
        spans = {
            name: _count(labelled, ranges, encoded, first_scored, kept)
            for name, ranges in labelled.spans.items()
        }
        empty = np.zeros(0, dtype=np.int64)
        targets = np.unique(np.concatenate([empty, *(span.scored for span in spans.values())]))
        above = self.options.alone_above
        windows = cut_windows(
            targets,
            kept,
            limit,
            self.options.window_stride,
            keep_tail=above is not None and len(prefix) + kept > above,
        )
        for window in windows:
            # A text that brings its own prefix, as chat templates do, gets no second one.
            before = prefix[:0] if window.start == 0 and begins_with_prefix else prefix
            ids = np.concatenate([before, encoded.ids[window.start : window.end]])
            pieces.append(Piece(ids, window.targets - window.start + len(before)))
        return _PlannedText(
            labelled, encoded, spans, targets, [w.targets for w in windows], [], treatment
        )

    def _score_chunk(
        self, chunk: _PlannedChunk, done: Collection[int]
    ) -> Iterator[dict[int, ScoredText]]:
        scores = _ScoreTable(chunk.pieces, self.options.token_details)
        waiting: dict[int, set[int]] = {}  # text -> its pieces without scores yet
        waited_for: dict[int, list[int]] = {}  # piece -> the texts that need it
        ready: dict[int, ScoredText] = {}
        for row, plan in enumerate(chunk.texts, start=chunk.first_row):
            if row in done:
                continue
            needed = {place.piece for place in plan.places}
            if not needed:
                ready[row] = self._finish(plan, scores)
            else:
                waiting[row] = needed
                for piece in needed:
                    waited_for.setdefault(piece, []).append(row)
        if ready:
            yield ready
        not_finite: list[int] = []
        for batch in self.backend.run(chunk.pieces, lambda piece: piece in waited_for):
            ready = {}
            for piece in scores.add(batch):
                for row in waited_for.pop(piece, ()):
                    waiting[row].discard(piece)
                    if not waiting[row]:
                        scored = self._finish(chunk.texts[row - chunk.first_row], scores)
                        if _is_finite(scored) or len(chunk.texts) == 1:
                            ready[row] = scored
                        else:
                            not_finite.append(row)
            if ready:
                yield ready
        # NaN spreads through attention, even to positions that are masked: what was read together
        # with a broken text may have caught it.
        for row in not_finite:
            yield {row: self._score_alone(chunk.texts[row - chunk.first_row].labelled)}
        assert not any(waiting.values()), "the backend left targets without a score"

    def _score_alone(self, labelled: LabelledText) -> ScoredText:
        chunk = self._plan([labelled], 0)
        scores = _ScoreTable(chunk.pieces, self.options.token_details)
        for batch in self.backend.run(chunk.pieces, lambda piece: True):
            scores.add(batch)
        return self._finish(chunk.texts[0], scores)

    def _finish(self, plan: _PlannedText, scores: _ScoreTable) -> ScoredText:
        where = scores.locate(plan)
        return ScoredText(
            spans={
                name: Likelihood(
                    nll=math.fsum(scores.nll[where[np.searchsorted(plan.targets, span.scored)]]),
                    token_len=len(span.scored),
                    byte_len=span.byte_len,
                    unscored_tokens=span.unscored,
                    truncated_tokens=span.truncated,
                    unaligned_chars=span.unaligned_chars,
                    token_details=self._details(plan, span, where, scores),
                )
                for name, span in plan.spans.items()
            },
            text_tokens=len(plan.encoded.ids),
            long_text=plan.long_text,
        )

    def _details(
        self, plan: _PlannedText, span: _CountedSpan, where: IntArray, scores: _ScoreTable
    ) -> TokenDetails | None:
        if not self.options.token_details:
            return None
        own = where[np.searchsorted(plan.targets, span.scored)]
        top_ids, top_nll = scores.top_ids[own].tolist(), scores.top_nll[own].tolist()
        return TokenDetails(
            start=plan.encoded.starts[span.scored].tolist(),
            end=plan.encoded.ends[span.scored].tolist(),
            nll=scores.nll[own].tolist(),
            rank=scores.rank[own].tolist(),
            top_tokens=[[self.encoder.token_text(i) for i in ids] for ids in top_ids],
            top_nll=top_nll,
        )


def _is_finite(scored: ScoredText) -> bool:
    return all(math.isfinite(likelihood.nll) for likelihood in scored.spans.values())


def _check_unicode(chunk: Sequence[LabelledText], first_row: int) -> None:
    for row, labelled in enumerate(chunk, start=first_row):
        try:
            labelled.text.encode()
        except UnicodeEncodeError as error:
            raise TextError(
                row,
                f"character {error.start} of the text is half of a surrogate pair "
                f"({labelled.text[error.start]!r}), which no tokenizer can read; mend the data",
            ) from error


def _count(
    labelled: LabelledText,
    ranges: Sequence[tuple[int, int]],
    encoded: EncodedText,
    first_scored: int,
    kept: int,
) -> _CountedSpan:
    counted = count_tokens(encoded, ranges, len(labelled.text))
    tokens = counted.tokens
    scored = tokens[(tokens >= first_scored) & (tokens < kept)]
    return _CountedSpan(
        scored=scored,
        unscored=int(np.count_nonzero(tokens < first_scored)),
        truncated=int(np.count_nonzero(tokens >= kept)),
        unaligned_chars=counted.unaligned_chars,
        byte_len=utf8_length(labelled.text, encoded, scored),
    )


class _ScoreTable:
    """Scores of all targets of all pieces of a chunk, filled batch by batch."""

    def __init__(self, pieces: Sequence[Piece], token_details: bool) -> None:
        counts = np.array([len(piece.targets) for piece in pieces], dtype=np.int64)
        self._first = np.concatenate(([0], np.cumsum(counts)))
        self._missing = counts.copy()
        total = int(self._first[-1])
        self.nll: NDArray[np.float64] = np.full(total, np.nan)
        self.rank: IntArray = np.zeros(total if token_details else 0, dtype=np.int64)
        self.top_ids: IntArray = np.zeros((len(self.rank), 0), dtype=np.int64)
        self.top_nll: NDArray[np.float64] = np.zeros((len(self.rank), 0))

    def add(self, batch: ScoredTargets) -> list[int]:
        """Enter the scores of a batch; return the pieces that are complete with it."""
        where = self._first[batch.pieces] + batch.slots
        self.nll[where] = batch.nll
        if batch.rank is not None and batch.top_ids is not None and batch.top_nll is not None:
            if self.top_ids.shape[1] != batch.top_ids.shape[1]:
                shape = (len(self.rank), batch.top_ids.shape[1])
                self.top_ids, self.top_nll = np.zeros(shape, dtype=np.int64), np.zeros(shape)
            self.rank[where] = batch.rank
            self.top_ids[where] = batch.top_ids
            self.top_nll[where] = batch.top_nll
        touched, counts = np.unique(batch.pieces, return_counts=True)
        self._missing[touched] -= counts
        return touched[self._missing[touched] == 0].tolist()

    def locate(self, plan: _PlannedText) -> IntArray:
        """Return the index in the table of each of the text's targets, in their order."""
        # Windows are in order, and so are the targets of each.
        parts = [self._first[place.piece] + place.slots for place in plan.places]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])
