"""What a results file says, as far as a summary needs it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MISSING = "-"
INTERVAL_SUFFIX = "_ci95"
_NO_METRICS = frozenset(
    (
        *("note", "incomplete", "reasons", "counts", "details", "lower_is_better"),
        *("provenance", "report", "resampled", "interval", "analysis"),
    )
)


@dataclass(frozen=True, slots=True)
class PairResults:
    """The results of one model on one data set, or of one model on a group of data sets.

    Attributes:
        metrics: Metric -> value, None for one without a value; in the order of the file.
        intervals: Metric -> 95 % interval, for those that have one.
        reasons: Metric -> why it has no value.
        lower_is_better: The metrics with that direction.
        coverage: Metric -> rows that have a value, and all rows; for metrics that say so.
        counts: What the evaluator counted, see ``notes``.
        note: What the evaluator says about its metrics.
        interval: What kind its intervals are: ``"bootstrap"`` or ``"Wilson"``.
        resampled: What bootstrap intervals draw anew: ``"rows"``, ``"questions"``.
        report: Name of the report that is made of the whole file, see ``reports``.
        incomplete: That and why rows are missing from the metrics; the task then counts as failed.
        status: What a cell shows instead of a value when there are no metrics at all.
        problem: More about ``status``, for a footnote.
        missing_members: What a group lacks, so that it has no value.
    """

    metrics: Mapping[str, float | None] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    lower_is_better: tuple[str, ...] = ()
    coverage: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    counts: Mapping[str, Any] = field(default_factory=dict)
    note: str | None = None
    interval: str = "bootstrap"
    resampled: str = "rows"
    report: str | None = None
    incomplete: str | None = None
    status: str = MISSING
    problem: str | None = None
    missing_members: tuple[str, ...] = ()


def read_results(path: Path) -> PairResults | None:
    """Return what a results file says, or None when there is no such file.

    Files made by OpenCompass are read too. A file that cannot be read, or has
    another form, gives status ``DAMAGED``.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return PairResults(status="DAMAGED", problem=f"cannot read {path}: {error}")
    if not isinstance(content, dict):
        return PairResults(status="DAMAGED", problem=f"{path} holds no JSON object")
    if "error" in content:
        return PairResults(status="FAILED", problem=f"{path}: {content['error']}")
    try:
        return _read(content)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        problem = f"{path} is no results file: {type(error).__name__}: {error}"
        return PairResults(status="DAMAGED", problem=problem)


def _read(content: Mapping[str, Any]) -> PairResults:
    """Return what a results file says; any error says that it has another form."""
    metrics = {name: value for name, value in content.items() if _is_metric(name, value)}
    reasons = dict(content.get("reasons") or {})
    reasons.update({m: content[f"{m}_reason"] for m in metrics if f"{m}_reason" in content})
    return PairResults(
        metrics={name: _finite(value) for name, value in metrics.items()},
        intervals={
            name: (float(ends[0]), float(ends[1]))
            for name in metrics
            if (ends := content.get(name + INTERVAL_SUFFIX)) is not None
        },
        reasons=reasons,
        lower_is_better=tuple(content.get("lower_is_better") or ()),
        coverage=_coverage(content.get("coverage")),
        counts=dict(content.get("counts") or {}),
        note=content.get("note"),
        interval=str(content.get("interval") or "bootstrap"),
        resampled=str(content.get("resampled") or "rows"),
        report=report if isinstance(report := content.get("report"), str) else None,
        incomplete=content.get("incomplete"),
    )


def _is_metric(name: str, value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    is_value = is_number or value is None
    return is_value and not name.endswith(INTERVAL_SUFFIX) and name not in _NO_METRICS


def _coverage(content: object) -> dict[str, tuple[int, int]]:
    if not isinstance(content, Mapping):
        return {}
    return {
        name: (int(rows["n_scored"]), int(rows["n_total"]))
        for name, rows in content.items()
        if isinstance(rows, Mapping) and {"n_scored", "n_total"} <= rows.keys()
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
