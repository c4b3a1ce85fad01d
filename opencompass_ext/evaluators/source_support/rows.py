"""What the predictions say of one response, and the scores that are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opencompass_ext.datasets.values import is_number
from opencompass_ext.errors import PredictionsError
from opencompass_ext.evaluators.answers import read_part
from opencompass_ext.metrics.score import Score
from opencompass_ext.metrics.source_support import (
    Readings,
    nll_after_sources,
    pmi_per_token,
    source_support,
    token_support,
    weakest,
)

NO_TOKENS = Score(None, "no_token_details")
"""The model told the sums only, not the NLL of each token."""

_PLACES = ("start", "end")
_COLUMNS = (*_PLACES, "after_sources", "alone")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a response.

    Attributes:
        start, end: Its characters in the response, half-open.
        source_support: Of its tokens.
        token_support: Of its tokens.
    """

    start: int
    end: int
    source_support: Score
    token_support: Score


@dataclass(frozen=True, slots=True)
class SupportedResponse:
    """A response and its scores.

    Attributes:
        id: Of the row in the data set.
        text: The response.
        readings: Of the whole response.
        scores: Name -> score, of the whole response.
        sentences: In order.
        is_windowed: Whether it followed only the end of its sources.
    """

    id: str
    text: str
    readings: Readings
    scores: Mapping[str, Score]
    sentences: tuple[Sentence, ...]
    is_windowed: bool


def read_response(number: int, row: Mapping[str, Any]) -> SupportedResponse:
    """Return row ``number`` of a predictions file with its scores.

    Raises:
        PredictionsError: The row is not what the inferencer writes.
    """
    reason = row.get("reason")
    readings = _readings(row, number, "", reason)
    tokens = _tokens(row.get("tokens"), number)
    given = row.get("sentences") or ()
    if not isinstance(given, (list, tuple)):
        raise _not_sentences(number, given)
    sentences = tuple(
        _sentence(number, place, sentence, tokens) for place, sentence in enumerate(given)
    )
    nothing = None if reason is None else Score(None, reason)
    scores = {
        "source_support": source_support(readings),
        "token_support": nothing or _token_support(tokens, None),
        "weakest_sentence": nothing or weakest([s.token_support for s in sentences]),
        "pmi_per_token": pmi_per_token(readings),
        "nll_after_sources": nll_after_sources(readings),
    }
    name = row.get("id")
    return SupportedResponse(
        id=str(number if name is None else name),
        text=str(row.get("response") or ""),
        readings=readings,
        scores=scores,
        sentences=sentences,
        is_windowed=(row.get("after_sources") or {}).get("long_text") == "window",
    )


def _readings(row: Mapping[str, Any], number: int, where: str, reason: str | None) -> Readings:
    after, alone = (
        read_part(row.get(name), number, f"{where}{name}", reason)
        for name in ("after_sources", "alone")
    )
    if after.tokens != alone.tokens:
        raise PredictionsError(
            f"row {number}: {where}'after_sources' counts {after.tokens} tokens and 'alone' "
            f"{alone.tokens}; both must count those of the response: run the inference again (-r)"
        )
    return Readings(after, alone)


def _sentence(
    number: int, place: int, sentence: Any, tokens: Mapping[str, Sequence[Any]] | None
) -> Sentence:
    if not isinstance(sentence, Mapping):
        raise _not_sentences(number, sentence)
    start, end = sentence.get("start"), sentence.get("end")
    if not isinstance(start, int) or not isinstance(end, int):
        raise _not_sentences(number, sentence)
    return Sentence(
        start,
        end,
        source_support(_readings(sentence, number, f"sentence {place + 1}: ", None)),
        _token_support(tokens, (start, end)),
    )


def _not_sentences(number: int, given: Any) -> PredictionsError:
    return PredictionsError(
        f"row {number}: 'sentences' must hold 'start', 'end' and two readings each, got "
        f"{given!r:.80}; run the inference again (-r)"
    )


def _tokens(tokens: Any, number: int) -> Mapping[str, Sequence[Any]] | None:
    if tokens is None:
        return None
    is_table = isinstance(tokens, Mapping) and all(
        isinstance(tokens.get(name), list) and all(_fits(name, value) for value in tokens[name])
        for name in _COLUMNS
    )
    if not is_table or len({len(tokens[name]) for name in _COLUMNS}) != 1:
        raise PredictionsError(
            f"row {number}: 'tokens' must hold numbers in columns {', '.join(_COLUMNS)} of one "
            f"length, got {tokens!r:.80}; run the inference again (-r)"
        )
    return tokens


def _fits(column: str, value: Any) -> bool:
    """Return whether a value can stand in a column of tokens: null for nats without a number."""
    return is_number(value) or (value is None and column not in _PLACES)


def _token_support(
    tokens: Mapping[str, Sequence[Any]] | None, span: tuple[int, int] | None
) -> Score:
    """Return the token support of the tokens that meet a span; None for all tokens."""
    if tokens is None:
        return NO_TOKENS
    rows = zip(*(tokens[name] for name in _COLUMNS), strict=True)
    inside = [
        (after, alone)
        for start, end, after, alone in rows
        if span is None or (start < span[1] and end > span[0])
    ]
    return token_support([after for after, _ in inside], [alone for _, alone in inside])
