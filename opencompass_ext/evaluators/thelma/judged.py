"""What the judge said about one row, and the scores and evidence that follow."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from opencompass_ext.evaluators.thelma.questions import (
    ALL_SOURCES,
    CHUNKS,
    CLAIMS,
    FACTS,
    RESPONSE,
    SUBQUESTIONS,
    Part,
    VerdictKey,
    facts_of,
    one_source,
    same_keys,
)
from opencompass_ext.evaluators.thelma.rows import RagRow
from opencompass_ext.judging import Decomposition, Verdict
from opencompass_ext.metrics import thelma
from opencompass_ext.metrics.score import Score


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """How verdicts become numbers; see ``ThelmaEvaluator``."""

    metrics: tuple[str, ...]
    joint: bool = False
    soft: bool = False
    literal_eq7: bool = False


@dataclass(slots=True)
class JudgedRow:
    """A row with all that was asked about it.

    Attributes:
        row: The row.
        parts: What came of the texts that were to be cut.
        verdicts: What the judge said.
        similarities: Cosine of each pair of sentences, in the order of ``sentence_pairs``; None
            where the judge was asked instead.
    """

    row: RagRow
    parts: dict[Part, Decomposition] = field(default_factory=dict)
    verdicts: dict[VerdictKey, Verdict] = field(default_factory=dict)
    similarities: Sequence[float] | None = None

    @property
    def units(self) -> dict[Part, tuple[str, ...]]:
        """The units of the parts that could be cut."""
        return {part: d.units for part, d in self.parts.items() if d.units is not None}

    @property
    def is_refusal(self) -> bool | None:
        """Whether the response declines to answer; None when that is not known."""
        found = self.parts.get((CLAIMS, ""))
        return found.is_refusal if found is not None and found.units is not None else None

    @property
    def failures(self) -> list[str]:
        """Why the judge gave no usable answer, once for every answer."""
        cut = [d.reason or "judge_error" for d in self.parts.values() if d.units is None]
        return cut + [v.reason or "judge_error" for v in self.verdicts.values() if v.is_yes is None]

    @property
    def unsure(self) -> int:
        """How many verdicts were "cannot tell", which counts as no."""
        return sum(verdict.is_unsure for verdict in self.verdicts.values())

    def scores(self, options: ScoringOptions) -> dict[str, Score]:
        """Return the score of every metric wanted."""
        return {name: _SCORERS[name](self, options) for name in options.metrics}

    def part_problem(self, kind: str) -> Score | None:
        """Return the null that a text of this kind makes of its metrics when it is not cut."""
        for (name, _), decomposition in self.parts.items():
            if name == kind and decomposition.units is None:
                return Score(None, decomposition.reason or "judge_error")
        return None

    def score_of(self, key: VerdictKey, *, soft: bool) -> Score:
        """Return a verdict as a number."""
        verdict = self.verdicts[key]
        if verdict.is_yes is None:
            return Score(None, verdict.reason or "judge_error")
        if not soft:
            return Score(float(verdict.is_yes))
        if verdict.probability is None:
            return Score(None, "no_probability")
        return Score(verdict.probability)


def sentence_pairs(row: RagRow) -> list[tuple[int, int]]:
    """Return the positions of all pairs of sentences of the response.

    Example:
        >>> row = RagRow("a", "q", (), 0, "A. B. C.", ("A.", "B.", "C."))
        >>> sentence_pairs(row)
        [(0, 1), (0, 2), (1, 2)]
    """
    return list(itertools.combinations(range(len(row.sentences)), 2))


def same_key(judged: JudgedRow, first: int, second: int) -> VerdictKey:
    """Return where the verdict on two sentences stands."""
    sentences = judged.row.sentences
    one, other = same_keys(sentences[first], sentences[second])
    return one if one in judged.verdicts else other


def _essential(
    judged: JudgedRow, among: str, units: Iterable[str], options: ScoringOptions
) -> list[Score]:
    keys = (VerdictKey("essential", among, unit) for unit in units)
    return [judged.score_of(key, soft=options.soft) for key in keys]


def _source_precision_chunk(judged: JudgedRow, options: ScoringOptions) -> Score:
    verdicts = _essential(judged, CHUNKS, (s.text for s in judged.row.sources), options)
    return thelma.source_precision(verdicts, has_sources=bool(judged.row.sources))


def _source_precision_fact(judged: JudgedRow, options: ScoringOptions) -> Score:
    facts = facts_of(judged.row, judged.units)
    if facts is None:
        return judged.part_problem(FACTS) or Score(None, "judge_error")
    verdicts = _essential(judged, FACTS, (fact for _, fact in facts), options)
    return thelma.source_precision(verdicts, has_sources=bool(judged.row.sources))


def _source_query_coverage(judged: JudgedRow, options: ScoringOptions) -> Score:
    has_sources = bool(judged.row.sources)
    problem = judged.part_problem(SUBQUESTIONS)
    if problem is not None and has_sources:
        return problem
    contexts = [one_source(source.id) for source in judged.row.sources]
    if options.joint:
        contexts = [ALL_SOURCES]
    table = [
        [judged.score_of(VerdictKey("covers", c, unit), soft=options.soft) for c in contexts]
        for unit in (judged.units.get((SUBQUESTIONS, ""), ()) if has_sources else ())
    ]
    return thelma.source_query_coverage(table, has_sources=has_sources)


def _response_precision(judged: JudgedRow, options: ScoringOptions) -> Score:
    problem = judged.part_problem(CLAIMS)
    if problem is not None:
        return problem
    verdicts = _essential(judged, CLAIMS, judged.units.get((CLAIMS, ""), ()), options)
    return thelma.response_precision(verdicts, has_response=bool(judged.row.response))


def _response_query_coverage(judged: JudgedRow, options: ScoringOptions) -> Score:
    has_response = bool(judged.row.response)
    problem = judged.part_problem(SUBQUESTIONS)
    if problem is not None and has_response:
        return problem
    verdicts = [
        judged.score_of(VerdictKey("covers", RESPONSE, unit), soft=options.soft)
        for unit in (judged.units.get((SUBQUESTIONS, ""), ()) if has_response else ())
    ]
    return thelma.response_query_coverage(verdicts, has_response=has_response)


def _self_distinctness(judged: JudgedRow, options: ScoringOptions) -> Score:
    if judged.similarities is None:
        pairs = sentence_pairs(judged.row)
        alike = [judged.score_of(same_key(judged, *pair), soft=options.soft) for pair in pairs]
    else:
        # Opposite directions are not more distinct than unrelated ones.
        alike = [Score(max(0.0, cosine)) for cosine in judged.similarities]
    sentences = len(judged.row.sentences)
    return thelma.self_distinctness(alike, sentences, literal_eq7=options.literal_eq7)


def _groundedness(judged: JudgedRow, options: ScoringOptions) -> Score:
    problem = judged.part_problem(CLAIMS)
    if problem is not None:
        return problem
    claims = judged.units.get((CLAIMS, ""), ())
    has_sources = bool(judged.row.sources)
    verdicts = [
        judged.score_of(VerdictKey("supported", ALL_SOURCES, claim), soft=options.soft)
        for claim in (claims if has_sources else ())
    ]
    return thelma.groundedness(
        verdicts,
        len(claims),
        has_sources=has_sources,
        has_response=bool(judged.row.response),
    )


_SCORERS = {
    "source_precision_chunk": _source_precision_chunk,
    "source_precision_fact": _source_precision_fact,
    "source_query_coverage": _source_query_coverage,
    "response_precision": _response_precision,
    "response_query_coverage": _response_query_coverage,
    "response_self_distinctness": _self_distinctness,
    "groundedness": _groundedness,
}
