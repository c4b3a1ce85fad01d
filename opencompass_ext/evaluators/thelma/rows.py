"""One answered question, as THELMA judges it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opencompass_ext.datasets.rag_rows import is_blank, sources_of
from opencompass_ext.errors import DataError, PredictionsError
from opencompass_ext.judging import Source
from opencompass_ext.sentences import split_sentences


@dataclass(frozen=True, slots=True)
class RagRow:
    """A query, what was retrieved for it, and what was answered.

    Attributes:
        id: Of the row in the data set.
        query: The user's query; never blank.
        sources: Those that hold text, with ids that differ.
        blank_sources: How many hold none; they are not judged.
        response: The answer; empty when there is none.
        sentences: Of the response.
    """

    id: str
    query: str
    sources: tuple[Source, ...]
    blank_sources: int
    response: str
    sentences: tuple[str, ...]


def make_row(
    number: int, question: Mapping[str, Any], response: Any, sources: Any, *, language: str
) -> RagRow:
    """Return row ``number`` of a predictions file with its question.

    Args:
        number: For error messages, counted from 0.
        question: The row of the data set: ``query``, and ``id`` and ``sources`` where it has them.
        response: The prediction; None or blank when the system gave none.
        sources: What the system retrieved itself; None to take those of the data set.
        language: Of the response, for its abbreviations; see ``split_sentences``.

    Raises:
        PredictionsError: There are no sources on either side, or something is of the wrong type.
    """
    query = question.get("query")
    if not isinstance(query, str) or is_blank(query):
        raise PredictionsError(
            f"row {number}: the data set must have a text in 'query', got {query!r}: use a "
            "RAGDataset"
        )
    if response is not None and not isinstance(response, str):
        raise PredictionsError(f"row {number}: 'prediction' must be one text, got {response!r:.80}")
    given = _sources(number, question if sources is None else {"sources": sources})
    holding_text = tuple(Source(s["id"], s["text"]) for s in given if not is_blank(s["text"]))
    answer = "" if response is None or is_blank(response) else response.strip()
    name = question.get("id")
    return RagRow(
        id=str(number if name is None else name),
        query=query,
        sources=holding_text,
        blank_sources=len(given) - len(holding_text),
        response=answer,
        sentences=tuple(split_sentences(answer, language)),
    )


def _sources(number: int, row: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    try:
        sources = sources_of(row)
    except DataError as error:
        raise PredictionsError(f"row {number}: {error}") from error
    if sources is None:
        raise PredictionsError(
            f"row {number}: neither the data set nor the system's predictions have 'sources': give "
            "them in one of the two (an empty list where nothing was retrieved)"
        )
    return sources
