"""What has to be asked about a row, given the metrics that are wanted.

First the texts are cut into units, then every unit gets its verdicts. What two metrics share is
asked once: claims for response precision and groundedness, sub-questions for both coverages. What
is asked for a metric never depends on which others are wanted beside it: a judge that sees other
units in a batch may judge otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from opencompass_ext.evaluators.thelma.rows import RagRow
from opencompass_ext.judging import Decompose, Match, Source

CLAIMS = "claims"
SUBQUESTIONS = "subquestions"
FACTS = "facts"
RESPONSE = "response"
ALL_SOURCES = "sources"
CHUNKS = "chunks"

Part = tuple[str, str]
"""A text that is cut into units: its kind, and the id of the source for facts."""

Units = Mapping[Part, Sequence[str]]
"""The units of each part; a part that could not be cut is not there."""


class VerdictKey(NamedTuple):
    """What a verdict is about, so that every metric finds it.

    Attributes:
        kind: The kind of question.
        context: What the unit was held against: ``one_source(id)``, ``ALL_SOURCES``, ``RESPONSE``,
            or a sentence. For ``essential``, held against the query, what it was judged among:
            ``CHUNKS``, ``FACTS`` or ``CLAIMS``.
        unit: The unit.
    """

    kind: str
    context: str
    unit: str


class Question(NamedTuple):
    """A question with units, and the context its verdicts are filed under."""

    context: str
    match: Match

    def keys(self) -> list[VerdictKey]:
        """Return what its verdicts are about, in the order of its units."""
        return [VerdictKey(self.match.kind, self.context, unit) for unit in self.match.units]


def decompositions(row: RagRow, metrics: Collection[str]) -> dict[Part, Decompose]:
    """Return which texts of a row have to be cut into units."""
    asked: dict[Part, Decompose] = {}
    if row.response and not {"response_precision", "groundedness"}.isdisjoint(metrics):
        asked[CLAIMS, ""] = Decompose("claims", row.response, row.query)
    needs_subquestions = (row.sources and "source_query_coverage" in metrics) or (
        row.response and "response_query_coverage" in metrics
    )
    if needs_subquestions:
        asked[SUBQUESTIONS, ""] = Decompose("subquestions", row.query)
    if "source_precision_fact" in metrics:
        for source in row.sources:
            asked[FACTS, source.id] = Decompose("facts", source.text, row.query)
    return asked


def questions(
    row: RagRow, metrics: Collection[str], units: Units, *, joint: bool, judge_similarity: bool
) -> Iterator[Question]:
    """Yield the questions about a row; those of a metric are the same whatever others are wanted.

    Args:
        row: The row.
        metrics: The metrics wanted.
        units: The units of its parts. A metric one of whose parts is missing has no value, so
            nothing is asked for it.
        joint: Judge coverage by all sources together.
        judge_similarity: Ask whether sentences say the same.
    """
    yield from _essential(row, metrics, units)
    yield from _covers(row, metrics, units.get((SUBQUESTIONS, ""), ()), joint)
    claims = units.get((CLAIMS, ""), ())
    if "groundedness" in metrics and claims and row.sources:
        match = Match("supported", tuple(claims), row.query, row.sources)
        yield Question(ALL_SOURCES, match)
    if "response_self_distinctness" in metrics and judge_similarity:
        yield from _same(row)


def one_source(source_id: str) -> str:
    """Return the context of verdicts on a single source."""
    return f"source {source_id}"


def facts_of(row: RagRow, units: Units) -> list[tuple[str, str]] | None:
    """Return the id of the source and the text of every fact; None if a source is not cut."""
    if any((FACTS, source.id) not in units for source in row.sources):
        return None
    return [(s.id, fact) for s in row.sources for fact in units[FACTS, s.id]]


def _essential(row: RagRow, metrics: Collection[str], units: Units) -> Iterator[Question]:
    groups: dict[str, Sequence[str]] = {}
    if "source_precision_chunk" in metrics:
        groups[CHUNKS] = [source.text for source in row.sources]
    if "source_precision_fact" in metrics:
        groups[FACTS] = [fact for _, fact in facts_of(row, units) or ()]
    if "response_precision" in metrics:
        groups[CLAIMS] = units.get((CLAIMS, ""), ())
    # A batch holds all units of one sort, those too that stand in another batch: a whole chunk
    # beside a short claim would look essential, and a claim left out would change the batch.
    for context, group in groups.items():
        if group:
            distinct = tuple(dict.fromkeys(group))
            yield Question(context, Match("essential", distinct, row.query))


def _covers(
    row: RagRow, metrics: Collection[str], subquestions: Sequence[str], joint: bool
) -> Iterator[Question]:
    if not subquestions:
        return
    units = tuple(subquestions)
    if "source_query_coverage" in metrics and row.sources:
        if joint:
            yield Question(ALL_SOURCES, Match("covers", units, row.query, row.sources))
        else:
            for source in row.sources:
                context = one_source(source.id)
                yield Question(context, Match("covers", units, row.query, (source,)))
    if "response_query_coverage" in metrics and row.response:
        response = Source(RESPONSE, row.response)
        yield Question(RESPONSE, Match("covers", units, row.query, (response,)))


def _same(row: RagRow) -> Iterator[Question]:
    asked: set[frozenset[str]] = set()
    for position, sentence in enumerate(row.sentences):
        later = [
            other
            for other in dict.fromkeys(row.sentences[position + 1 :])
            if frozenset((sentence, other)) not in asked
        ]
        if later:
            asked.update(frozenset((sentence, other)) for other in later)
            text = Source("sentence", sentence)
            yield Question(sentence, Match("same", tuple(later), None, (text,)))


def same_keys(first: str, second: str) -> tuple[VerdictKey, VerdictKey]:
    """Return the two places at which the verdict on a pair of sentences may stand."""
    return VerdictKey("same", first, second), VerdictKey("same", second, first)
