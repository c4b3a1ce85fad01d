"""The mean of a metric over the rows of a set, as the results file has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.metrics.bootstrap import mean_interval
from opencompass_ext.metrics.score import Score
from opencompass_ext.metrics.thelma import set_score


def mean_entries(
    scores: Mapping[str, Sequence[Score]], *, seed: int, min_coverage: float
) -> dict[str, Any]:
    """Return the means, then ``<metric>_ci95`` of each, ``reasons`` and ``coverage``.

    Args:
        scores: Metric -> score of each row.
        seed: Of the bootstrap.
        min_coverage: Share of the rows that a metric must be scored on for its mean to be shown.

    Example:
        >>> found = mean_entries({"m": [Score(1.0), Score(None, "no_claims")]}, seed=0,
        ...                      min_coverage=0.0)
        >>> found["m"], found["coverage"]["m"]
        (1.0, {'n_scored': 1, 'n_total': 2, 'null_rows': {'no_claims': 1}})
        >>> found["m_ci95"], found["reasons"]
        (None, {'m_ci95': 'fewer_than_two_scored_rows'})
    """
    means: dict[str, float | None] = {}
    intervals: dict[str, list[float] | None] = {}
    reasons: dict[str, str] = {}
    coverage: dict[str, Any] = {}
    for name, of_rows in scores.items():
        found = set_score(of_rows)
        means[name], reason = found.mean, None
        if found.mean is None:
            reason = max(found.reasons, key=found.reasons.__getitem__, default="no_rows")
        elif found.n_scored < min_coverage * found.n_total:
            means[name], reason = None, "coverage_below_minimum"
        values = [score.value for score in of_rows if score.value is not None]
        ends = mean_interval(values, seed=seed) if reason is None else None
        intervals[f"{name}_ci95"] = None if ends is None else list(ends)
        if reason is not None:
            reasons[name] = reason
        if ends is None:
            reasons[f"{name}_ci95"] = reason or "fewer_than_two_scored_rows"
        coverage[name] = {
            "n_scored": found.n_scored,
            "n_total": found.n_total,
            "null_rows": found.reasons,
        }
    return {**means, **intervals, "reasons": reasons, "coverage": coverage}
