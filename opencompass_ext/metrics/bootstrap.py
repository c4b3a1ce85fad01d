"""Intervals and p-values by resampling: how far would a number move with other rows?

What is drawn is a *unit*: a row, or a question with all that belongs to it, whichever is
independent of the rest. A draw is written as how often each unit was taken, so that a statistic of
all resamples at once is a product of matrices and not a loop.

Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 (percentile
interval) and 15 (permutation test).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache

import numpy as np

BLOCK = 2**18
"""How many draws are held in memory at a time (or one resample, if longer)."""

KEPT = 2**22
"""Up to so many draws are kept, since a report asks for the same ones dozens of times."""

RESAMPLES = 1000
EXACT_UNITS = 12
"""Up to so many units a permutation test tries every assignment of signs."""

MIN_UNITS = 10
"""With fewer units an interval exists, and is too narrow to rest a verdict on."""

MIN_DEFINED = 0.99
"""Share of the resamples that must have a value for an interval to be given.

Those without one are no random part of all: they are the extreme ones, and an interval of the rest
leaves out what would make it wide. One in a hundred is less than what either end cuts off."""

Statistic = Callable[[np.ndarray], np.ndarray]


def draw_counts(units: int, *, seed: int, resamples: int = RESAMPLES) -> Iterator[np.ndarray]:
    """Yield how often each unit is drawn, with replacement, in blocks of resamples.

    Args:
        units: How many units there are, at least 1; each resample draws as many.
        seed: Seed of the draws; equal seeds give equal draws.
        resamples: How many resamples in all.

    Yields:
        Counts ``[block, units]``, each row summing to ``units``.

    Example:
        >>> [counts.shape for counts in draw_counts(3, seed=0, resamples=5)]
        [(5, 3)]
        >>> all((counts.sum(axis=1) == 3).all() for counts in draw_counts(3, seed=0))
        True
    """
    if units * resamples <= KEPT:
        yield from _kept_counts(units, seed, resamples, BLOCK)
    else:
        yield from _draw_counts(units, seed, resamples, BLOCK)


def bootstrap_interval(
    statistic: Statistic,
    units: int,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Return the percentile interval of a statistic over resampled units.

    Args:
        statistic: From counts ``[block, units]`` to values ``[block]``; NaN where a resample has
            no value. Those are left out.
        units: How many units there are.
        seed: Seed of the draws.
        resamples: How many resamples.
        level: Share of the resampled values inside the interval.

    Returns:
        (low, high) in the unit of the statistic. None with fewer than two units, as one says
        nothing of how they differ, and when more than one in a hundred resamples has none.

    Example:
        >>> values = np.array([1.0, 2.0, 6.0])
        >>> low, high = bootstrap_interval(lambda counts: counts @ values / 3, 3, seed=0)
        >>> 1.0 <= low < values.mean() < high <= 6.0
        True
        >>> bootstrap_interval(lambda counts: counts[:, 0], 1, seed=0) is None
        True
    """
    if units < 2:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        blocks = [
            statistic(counts) for counts in draw_counts(units, seed=seed, resamples=resamples)
        ]
    values = np.concatenate(blocks)
    defined = values[~np.isnan(values)]
    if len(defined) < MIN_DEFINED * len(values):
        return None
    tail = (1 - level) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)


def mean_interval(
    values: Sequence[float],
    units: Sequence[Hashable] | None = None,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Return the interval of the mean of all values, resampling the units they belong to.

    With the differences of two systems on the same rows as ``values``, this is the paired
    bootstrap of their difference: an interval that leaves out 0 says that they differ.

    Args:
        values: One value per row.
        units: The unit of each row, such as its question; None makes each row its own.
        seed: Seed of the draws.
        resamples: How many resamples.
        level: Share of the resampled means inside the interval.

    Returns:
        (low, high); None with fewer than two units.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> mean_interval([0.5, 0.5, 0.5], seed=0)
        (0.5, 0.5)
        >>> mean_interval([0.0, 1.0], units=["q", "q"], seed=0) is None
        True
    """
    sums, sizes = _per_unit(values, units)
    return bootstrap_interval(
        lambda counts: (counts @ sums) / (counts @ sizes),
        len(sums),
        seed=seed,
        resamples=resamples,
        level=level,
    )


def median_interval(
    values: Sequence[float], *, seed: int, resamples: int = RESAMPLES, level: float = 0.95
) -> tuple[float, float] | None:
    """Return the interval of the median, resampling the values.

    Args:
        values: One value per independent row.
        seed: Seed of the draws.
        resamples: How many resamples.
        level: Share of the resampled medians inside the interval.

    Returns:
        (low, high); None with fewer than two values.

    Example:
        >>> low, high = median_interval([1.0, 2.0, 3.0, 4.0, 90.0], seed=0)
        >>> (low, high) == (1.0, 90.0)
        True
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    lower, upper = (len(ordered) - 1) // 2, len(ordered) // 2

    def medians(counts: np.ndarray) -> np.ndarray:
        # The k-th smallest of a resample is the first value that more than k draws do not exceed.
        up_to = counts.cumsum(axis=1)
        low = ordered[(up_to > lower).argmax(axis=1)]
        high = ordered[(up_to > upper).argmax(axis=1)]
        return (low + high) / 2

    return bootstrap_interval(medians, len(ordered), seed=seed, resamples=resamples, level=level)


def paired_permutation_p(
    differences: Sequence[float],
    units: Sequence[Hashable] | None = None,
    *,
    seed: int,
    permutations: int = 10_000,
) -> float | None:
    """Return the two-sided p-value of the paired permutation test of a mean difference.

    If two systems did not differ, each unit's differences could as well have had the other sign.
    The p-value is the share of sign assignments whose sum lies at least as far from 0 as the one
    seen: of all assignments with up to 12 units, else of randomly drawn ones, the one seen counted
    among them so that the p-value is never 0.

    Args:
        differences: System A minus system B, one per row.
        units: The unit of each row, such as its question: rows of a unit change sign together.
            None makes each row its own.
        seed: Seed of the drawn assignments.
        permutations: How many assignments are drawn when not all are tried.

    Returns:
        From just above 0 to 1; None without a row.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> paired_permutation_p([1.0, 1.0, 1.0], seed=0)  # 2 of the 8 assignments
        0.25
        >>> paired_permutation_p([0.0, 0.0], seed=0)
        1.0
    """
    sums, _ = _per_unit(differences, units)
    if not len(sums):
        return None
    # Sums of the same numbers in another order differ in their last bits, which are those of the
    # numbers: a sum that should be 0 is no measure of them.
    as_far = abs(float(sums.sum())) - 1e-12 * float(np.abs(sums).sum())
    if len(sums) <= EXACT_UNITS:
        numbers = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums))
        return float(np.mean(np.abs((1 - 2 * (numbers & 1)) @ sums) >= as_far))
    rng = np.random.default_rng(seed)
    per_block = max(1, BLOCK // len(sums))
    hits = 0
    for done in range(0, permutations, per_block):
        block = min(per_block, permutations - done)
        # Eight signs out of each random byte: the draws are what takes the time here.
        octets = rng.integers(0, 256, size=(block, -(-len(sums) // 8)), dtype=np.uint8)
        is_turned = np.unpackbits(octets, axis=1, count=len(sums)).astype(np.float64)
        hits += int(np.count_nonzero(np.abs(sums.sum() - 2 * (is_turned @ sums)) >= as_far))
    return (hits + 1) / (permutations + 1)


@lru_cache(maxsize=4)
def _kept_counts(units: int, seed: int, resamples: int, block: int) -> tuple[np.ndarray, ...]:
    blocks = tuple(_draw_counts(units, seed, resamples, block))
    for counts in blocks:
        counts.setflags(write=False)
    return blocks


def _draw_counts(units: int, seed: int, resamples: int, block: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    per_block = max(1, block // units)
    for done in range(0, resamples, per_block):
        size = min(per_block, resamples - done)
        drawn = rng.integers(0, units, size=(size, units))
        # Each resample gets a range of numbers of its own, so that one count serves the block.
        drawn += units * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * units)
        yield counts.reshape(size, units).astype(np.float64)


def _per_unit(
    values: Sequence[float], units: Sequence[Hashable] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum and the number of the values of each unit, in order of first sight."""
    if units is None:
        return np.asarray(values, dtype=np.float64), np.ones(len(values))
    grouped: dict[Hashable, list[float]] = {}
    for value, unit in zip(values, units, strict=True):
        grouped.setdefault(unit, []).append(value)
    sums = np.array([math.fsum(group) for group in grouped.values()], dtype=np.float64)
    return sums, np.array([len(group) for group in grouped.values()], dtype=np.float64)
