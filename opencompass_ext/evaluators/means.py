"""The mean of a metric over the rows of a set, as the results file has it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from opencompass_ext.metrics.bootstrap import RESAMPLES, mean_interval
from opencompass_ext.metrics.score import Score, set_score


def mean_entries(
    scores: Mapping[str, Sequence[Score]],
    units: Sequence[Hashable] | None = None,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    min_coverage: float = 0.0,
) -> dict[str, Any]:
    """Return the means, then ``<metric>_ci95`` of each, ``reasons`` and ``coverage``.

    Args:
        scores: Metric -> score of each row.
        units: What is resampled for the intervals, for each row; None resamples rows.
        seed: Of the bootstrap.
        resamples: Of the bootstrap.
        min_coverage: Share of the rows that a metric must be scored on for its mean to be shown.

    Example:
        >>> found = mean_entries({"m": [Score(1.0), Score(None, "no_claims")]}, seed=0)
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
        ends = None if reason is not None else _interval(of_rows, units, seed, resamples)
        intervals[f"{name}_ci95"] = None if ends is None else list(ends)
        if reason is not None:
            reasons[name] = reason
        if ends is None:
            few = "rows" if found.n_scored < 2 else "units"
            reasons[f"{name}_ci95"] = reason or f"fewer_than_two_scored_{few}"
        coverage[name] = {
            "n_scored": found.n_scored,
            "n_total": found.n_total,
            "null_rows": found.reasons,
        }
    return {**means, **intervals, "reasons": reasons, "coverage": coverage}


def _interval(
    scores: Sequence[Score], units: Sequence[Hashable] | None, seed: int, resamples: int
) -> tuple[float, float] | None:
    of_rows = zip(scores, range(len(scores)) if units is None else units, strict=True)
    scored = [(score.value, unit) for score, unit in of_rows if score.value is not None]
    values, own_units = [value for value, _ in scored], [unit for _, unit in scored]
    return mean_interval(values, own_units, seed=seed, resamples=resamples)
