"""A mean over rows beside how many of them it is taken over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opencompass_ext.summarizers.reports.figures import share
from opencompass_ext.summarizers.reports.report import part_of
from opencompass_ext.summarizers.results import INTERVAL_SUFFIX, MISSING


def mean_cell(results: Mapping[str, Any], name: str) -> str:
    """Return a metric with its interval, and its rows with a value of all rows.

    Args:
        results: A results file with ``coverage``.
        name: The metric; one that is not there is a dash.

    Raises:
        UnfitResults: The metric has no ``coverage``.

    Example:
        >>> rows = {"n_scored": 3, "n_total": 4}
        >>> mean_cell({"m": 0.5, "m_ci95": [0.25, 0.75], "coverage": {"m": rows}}, "m")
        '0.500 [0.250, 0.750] (3/4)'
    """
    if name not in results:
        return MISSING
    scored = part_of(results, "coverage", name, "n_scored")
    total = part_of(results, "coverage", name, "n_total")
    return f"{share(results[name], results.get(name + INTERVAL_SUFFIX))} ({scored}/{total})"
