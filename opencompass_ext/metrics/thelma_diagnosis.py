"""What a pattern of THELMA metrics says about a RAG system, and which component to mend.

Source: the diagnosis table of THELMA, arXiv 2505.11626. The paper says "low" and "high" without
numbers; the cut-offs here are a choice, and arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

LOW = 0.5
HIGH = 0.7

# Where only facts were judged, their precision stands for that of the sources.
_SOURCE_PRECISION = ("source_precision_chunk", "source_precision_fact")
_SQC = ("source_query_coverage",)
_RP = ("response_precision",)
_RQC = ("response_query_coverage",)
_SD = ("response_self_distinctness",)
_GROUNDEDNESS = ("groundedness",)


class Condition(NamedTuple):
    """A metric is low, or high.

    Attributes:
        metrics: Keys of the metric; the first that has a value counts.
        level: ``"low"`` or ``"high"``.
    """

    metrics: tuple[str, ...]
    level: Literal["low", "high"]


class Rule(NamedTuple):
    """A pattern of metrics and what it means.

    Attributes:
        name: Short name, the key in files.
        conditions: All must hold.
        meaning: What has gone wrong, for people.
        fix: The component to mend.
    """

    name: str
    conditions: tuple[Condition, ...]
    meaning: str
    fix: str


RULES = (
    Rule(
        "repetitive",
        (Condition(_SD, "low"), Condition(_RP, "high")),
        "the response is relevant but repeats itself",
        "prompt or generator",
    ),
    Rule(
        "not_retrieved",
        (Condition(_SQC, "low"), Condition(_RQC, "low")),
        "retrieval missed the answer, or the corpus lacks it",
        "retriever or source text",
    ),
    Rule(
        "noisy_retrieval",
        (Condition(_SOURCE_PRECISION, "low"), Condition(_SQC, "high")),
        "the sources hold the answer, but some of them are irrelevant",
        "retriever",
    ),
    Rule(
        "retrieved_not_used",
        (Condition(_RQC, "low"), Condition(_SQC, "high")),
        "the sources hold the answer, and the response does not use it",
        "prompt or generator",
    ),
    Rule(
        "padded",
        (Condition(_RP, "low"), Condition(("source_precision_chunk",), "high")),
        "the response holds what the query does not need, although the sources are essential",
        "prompt or source chunking",
    ),
    Rule(
        "ungrounded",
        (Condition(_SQC, "low"), Condition(_RQC, "high"), Condition(_GROUNDEDNESS, "low")),
        "the response answers what the sources do not cover",
        "prompt",
    ),
)
"""The paper's six patterns."""


def rule_holds(
    rule: Rule, scores: Mapping[str, float | None], *, low: float = LOW, high: float = HIGH
) -> bool | None:
    """Return whether a pattern holds, or None when a metric it speaks of has no value.

    A condition that fails settles the matter, whatever the others are.

    Args:
        rule: The pattern.
        scores: Metric -> value in [0, 1], or None; metrics may be left out.
        low: A value below it is low.
        high: A value of at least it is high.

    Example:
        >>> retrieved_not_used = RULES[3]
        >>> rule_holds(retrieved_not_used, {"response_query_coverage": 0.2,
        ...     "source_query_coverage": 0.9})
        True
        >>> rule_holds(retrieved_not_used, {"source_query_coverage": 0.9}) is None
        True
        >>> rule_holds(retrieved_not_used, {"source_query_coverage": 0.6})
        False
    """
    are_met = [_is_met(condition, scores, low, high) for condition in rule.conditions]
    if False in are_met:
        return False
    return None if None in are_met else True


def diagnose(
    scores: Mapping[str, float | None], *, low: float = LOW, high: float = HIGH
) -> list[str]:
    """Return the names of all patterns that hold.

    Args:
        scores: Metric -> value in [0, 1], or None, of one row or means over a set.
        low: A value below it is low.
        high: A value of at least it is high.

    Returns:
        Names of ``RULES``, in that order; empty when none holds. A pattern that speaks of a metric
        without a value is not among them.

    Example:
        >>> diagnose({"source_query_coverage": 0.4, "response_query_coverage": 0.1})
        ['not_retrieved']
    """
    return [rule.name for rule in RULES if rule_holds(rule, scores, low=low, high=high)]


def _is_met(
    condition: Condition, scores: Mapping[str, float | None], low: float, high: float
) -> bool | None:
    values = [scores[name] for name in condition.metrics if scores.get(name) is not None]
    value = values[0] if values else None
    if value is None:
        return None
    return value < low if condition.level == "low" else value >= high
