"""Ranks and rank correlations; equal values share the mean of their ranks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Correlation(NamedTuple):
    """A rank correlation.

    Attributes:
        value: -1 (reversed) to 1 (same order); None when one side is constant or too short.
        p: Two-sided p-value of no correlation; None where there is no value.
        n: Pairs of values.
    """

    value: float | None
    p: float | None
    n: int


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, 1 for the lowest; equal values share the mean of theirs.

    Args:
        values: The values.

    Example:
        >>> ranks([0.3, 0.1, 0.3, 7.0])
        [2.5, 1.0, 2.5, 4.0]
    """
    ordered = sorted(values)
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for place, value in enumerate(ordered, start=1):
        first.setdefault(value, place)
        last[value] = place
    return [(first[value] + last[value]) / 2 for value in values]


def kendall_tau_b(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Return Kendall's tau-b: concordant minus discordant pairs, corrected for ties.

    Args:
        x: Values of one side.
        y: Values of the other, in the same order.

    Raises:
        ValueError: The two lists differ in length.

    References:
        Kendall, The Treatment of Ties in Ranking Problems (1945).

    Example:
        >>> found = kendall_tau_b([1, 2, 3, 4], [1, 3, 2, 4])
        >>> round(found.value, 4), round(found.p, 4), found.n
        (0.6667, 0.3333, 4)
        >>> kendall_tau_b([1, 1], [1, 2])
        Correlation(value=None, p=None, n=2)
    """
    _check_lengths(x, y)
    if _is_constant(x) or _is_constant(y):
        return Correlation(None, None, len(x))
    from scipy.stats import kendalltau

    found = kendalltau(x, y, variant="b")
    return Correlation(float(found.statistic), float(found.pvalue), len(x))


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Return Spearman's rho, the linear correlation of the ranks.

    Args:
        x: Values of one side.
        y: Values of the other, in the same order.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> round(spearman([1, 2, 3, 4], [1, 30, 20, 400]).value, 4)
        0.8
        >>> spearman([1, 2, 3], [5, 5, 5])
        Correlation(value=None, p=None, n=3)
    """
    _check_lengths(x, y)
    if _is_constant(x) or _is_constant(y):
        return Correlation(None, None, len(x))
    from scipy.stats import spearmanr

    # Two values lie on a line whatever they are: there is nothing to test.
    if len(x) < 3:
        return Correlation(statistics.correlation(ranks(x), ranks(y)), None, len(x))
    found = spearmanr(x, y)
    return Correlation(float(found.statistic), float(found.pvalue), len(x))


def _is_constant(values: Sequence[float]) -> bool:
    return len(set(values)) < 2


def _check_lengths(x: Sequence[float], y: Sequence[float]) -> None:
    if len(x) != len(y):
        raise ValueError(f"{len(x)} values on one side, {len(y)} on the other")
