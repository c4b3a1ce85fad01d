"""From a question to the calls it takes: units in batches, long texts in parts.

A judge reads at most ``context_tokens``. What a call needs besides the sources is counted by
rendering it without them; the sources then fill what is left, cut at sentence ends where they must
be, with every part seen by every unit.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from opencompass_ext.errors import ConfigError
from opencompass_ext.judging.base import BaseJudge, Call, Unit
from opencompass_ext.judging.jobs import DecomposeJob, Job, MatchJob
from opencompass_ext.judging.pieces import in_halves, pack, split_text
from opencompass_ext.judging.prompts.render import MOST_REPLY_CHARS, decompose_call, match_call
from opencompass_ext.judging.prompts.templates import Templates
from opencompass_ext.judging.questions import Decompose, Match, Source
from opencompass_ext.judging.results import DecomposeResult, MatchResult

# Tags around a text, and what tokens at its edges may add.
_TAG_TOKENS = 40
# Fewer tokens than this are no room for a text.
_LEAST_TOKENS = 32
# A list of claims is about as long as the text itself, written out and with marks around each.
_REPLY_PER_TEXT = 2
TOO_LONG = "too_long_for_judge"


@dataclass
class _Piece:
    """Part of a source or unit: which one, and its text."""

    owner: int
    text: str


class Planner:
    """Makes the jobs of a question.

    Args:
        judge: Its limits.
        templates: Of the language.
        units_per_call: Most units in one call.
    """

    def __init__(self, judge: BaseJudge, templates: Templates, units_per_call: int) -> None:
        self._judge = judge
        self._templates = templates
        self._units_per_call = 1 if judge.answers_by_likelihood else units_per_call
        self._by_likelihood = judge.answers_by_likelihood
        self._count = judge.count_tokens

    def decompose(self, question: Decompose) -> tuple[DecomposeResult, Iterator[Job]]:
        """Return where the units will come together, and the jobs that fetch them.

        Raises:
            ConfigError: The judge's ``max_tokens`` is too small for any list of units.
        """
        query = None if question.kind == "subquestions" else question.query
        make = functools.partial(
            decompose_call, self._templates, question.kind, query=query, max_tokens=self._max_tokens
        )
        room = self._room(make(text=""), _TAG_TOKENS)
        if question.kind == "subquestions":
            parts = [question.text]
            is_too_long = room is not None and self._count(question.text) > room
        else:
            size = self._tokens_of_list(question.kind)
            size = size if room is None else min(size, room)
            is_too_long = size < _LEAST_TOKENS
            parts = [] if is_too_long else split_text(question.text, size, self._count)
        if is_too_long:
            return DecomposeResult({}, reason=TOO_LONG), iter(())
        result = DecomposeResult({(i,): None for i in range(len(parts))})

        def halves(call: Call) -> list[Call]:
            # Half a question is another question.
            is_whole = question.kind == "subquestions"
            pieces = [] if is_whole else in_halves((call.texts or {})["text"][0])
            return [make(text=piece, part=call.part) for piece in pieces]

        jobs = (
            DecomposeJob(
                make(text=part, part=(i + 1, len(parts))), result, (i,), self._templates, halves
            )
            for i, part in enumerate(parts)
        )
        return result, jobs

    def match(self, question: Match) -> tuple[MatchResult, Iterator[Job]]:
        """Return where the verdicts will come together, and the jobs that fetch them."""
        result = MatchResult(question, self._again)
        if not question.units:
            return result, iter(())
        sources = [source for source in question.sources if source.text.strip()]
        room = self._room(self._call(question, [], []), 0)
        # Sources get at least half of the room, where there are any.
        for_units = None if room is None else room if not sources else room // 2
        if for_units is not None and for_units < _LEAST_TOKENS + _TAG_TOKENS:
            _give_up(result, range(len(result.units)))
            return result, iter(())
        batches = self._batches(result, for_units)
        return result, self._match_jobs(question, result, batches, sources, room)

    def _match_jobs(
        self,
        question: Match,
        result: MatchResult,
        batches: Sequence[Sequence[_Piece]],
        sources: Sequence[Source],
        room: int | None,
    ) -> Iterator[Job]:
        texts, ids = [s.text for s in sources], [s.id for s in sources]
        for batch in batches:
            taken = 0 if room is None else sum(self._size(piece.text) for piece in batch)
            groups = self._groups(texts, None if room is None else room - taken)
            if question.kind == "same" and len(groups) > 1:
                # What says the same as half a sentence does not say the same as the sentence.
                _give_up(result, [piece.owner for piece in batch])
                continue
            units = [Unit(i, piece.text) for i, piece in enumerate(batch, start=1)]
            for number, group in enumerate(groups, start=1):
                yield MatchJob(
                    self._call(
                        question, units, [piece.text for piece in group], (number, len(groups))
                    ),
                    result,
                    {unit.id: piece.owner for unit, piece in zip(units, batch, strict=True)},
                    [ids[piece.owner] for piece in group],
                    self._templates,
                )

    def _tokens_of_list(self, kind: str) -> int:
        """Return how long a text may be for the list of its units to fit a reply."""
        size = self._max_tokens // _REPLY_PER_TEXT
        if size < _LEAST_TOKENS:
            raise ConfigError(
                f"max_tokens={self._max_tokens} of the judge is too little for a list of {kind}: "
                f"give it {_REPLY_PER_TEXT * _LEAST_TOKENS} at the very least"
            )
        return size

    @property
    def _max_tokens(self) -> int:
        return self._judge.max_tokens

    def _room(self, empty: Call, reserve: int) -> int | None:
        """Return the tokens left for texts in a call; None for no limit."""
        limit = self._judge.context_tokens
        if limit is None:
            return None
        frame = sum(self._count(message["content"]) for message in empty.messages)
        if self._by_likelihood and empty.words is not None:
            return limit - frame - _TAG_TOKENS - reserve
        # A reply that cannot be used goes back to the judge, in part, before it replies again.
        repair = _TAG_TOKENS + MOST_REPLY_CHARS // 3
        return limit - frame - empty.max_tokens - repair - reserve

    def _size(self, text: str) -> int:
        return self._count(text) + _TAG_TOKENS

    def _batches(self, result: MatchResult, room: int | None) -> list[list[_Piece]]:
        pieces: list[_Piece] = []
        for owner, text in enumerate(result.units):
            if room is None or self._size(text) <= room:
                pieces.append(_Piece(owner, text))
            elif result.question.kind == "essential":
                parts = split_text(text, room - _TAG_TOKENS, self._count)
                pieces += [_Piece(owner, part) for part in parts]
            else:
                # Half a claim may be supported, half a question answered, where the whole is not.
                _give_up(result, [owner])
        sizes = [0 if room is None else self._size(piece.text) for piece in pieces]
        groups = pack(sizes, room or 0, self._units_per_call)
        return [[pieces[i] for i in group] for group in groups]

    def _groups(self, texts: Sequence[str], room: int | None) -> list[list[_Piece]]:
        """Return the sources in groups that fit a call each; one empty group without sources."""
        pieces = [_Piece(owner, text) for owner, text in enumerate(texts)]
        if room is None or not texts:
            return [pieces]
        sizes = [self._size(text) for text in texts]
        if sum(sizes) <= room:
            return [pieces]
        pieces = [
            _Piece(piece.owner, text)
            for piece in pieces
            for text in split_text(piece.text, max(1, room - _TAG_TOKENS), self._count)
        ]
        groups = pack([self._size(piece.text) for piece in pieces], room)
        return [[pieces[i] for i in group] for group in groups]

    def _call(
        self,
        question: Match,
        units: Sequence[Unit],
        sources: Sequence[str],
        part: tuple[int, int] = (1, 1),
    ) -> Call:
        return match_call(
            self._templates,
            question.kind,
            units,
            question.query,
            sources,
            self._max_tokens,
            by_likelihood=self._by_likelihood,
            part=part,
        )

    def _again(self, call: Call, units: Sequence[Unit]) -> Call:
        texts = call.texts or {}
        return match_call(
            self._templates,
            call.kind,
            units,
            texts["query"][0] if texts["query"] else None,
            texts["sources"],
            call.max_tokens,
            by_likelihood=self._by_likelihood,
            part=call.part,
        )


def _give_up(result: MatchResult, owners: Iterable[int]) -> None:
    for owner in owners:
        result.fail(owner, TOO_LONG)
