"""Two classes: how well a score tells them apart, whatever the threshold."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from opencompass_ext.metrics.bootstrap import RESAMPLES, bootstrap_interval


def roc_auc(is_positive: Sequence[bool], scores: Sequence[float]) -> float | None:
    """Return the area under the ROC curve: how often a positive scores above a negative.

    Args:
        is_positive: The class of each row.
        scores: Higher should mean positive; equal scores count half.

    Returns:
        0 to 1, 0.5 is chance. None when a class does not occur.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> roc_auc([True, True, False, False], [0.9, 0.4, 0.4, 0.1])
        0.875
        >>> roc_auc([True], [0.5]) is None
        True
    """
    if len(is_positive) != len(scores):
        raise ValueError(f"{len(is_positive)} classes for {len(scores)} scores")
    if not any(is_positive) or all(is_positive):
        return None
    return float(_auc_of_counts(is_positive, scores, np.ones((1, len(scores))))[0])


def roc_auc_interval(
    is_positive: Sequence[bool],
    scores: Sequence[float],
    units: Sequence[Hashable] | None = None,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Return the bootstrap interval of ``roc_auc``.

    Args:
        is_positive: The class of each row.
        scores: The score of each row.
        units: What is drawn, such as the question of each row; None draws rows.
        seed: Seed of the draws.
        resamples: How many resamples.
        level: Share of the resampled areas inside the interval.

    Returns:
        (low, high); None when a class does not occur, or too rarely to be in most resamples.

    Raises:
        ValueError: The lists differ in length.

    Example:
        >>> scores = [0.9, 0.1, 0.3, 0.4, 0.8, 0.7]
        >>> low, high = roc_auc_interval([True, False] * 9, scores * 3, seed=0)
        >>> 0 <= low < roc_auc([True, False] * 9, scores * 3) < high <= 1
        True
    """
    if roc_auc(is_positive, scores) is None:
        return None
    rows, count = _unit_of_rows(len(scores), units)
    return bootstrap_interval(
        lambda counts: _auc_of_counts(is_positive, scores, counts[:, rows]),
        count,
        seed=seed,
        resamples=resamples,
        level=level,
    )


def roc_auc_difference_interval(
    is_positive: Sequence[bool],
    scores: Sequence[float],
    other_scores: Sequence[float],
    units: Sequence[Hashable] | None = None,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Return the paired bootstrap interval of the AUC of one score minus that of another.

    Args:
        is_positive: The class of each row.
        scores: The one score of each row.
        other_scores: The other score of each row.
        units: What is drawn; None draws rows.
        seed: Seed of the draws.
        resamples: How many resamples.
        level: Share of the resampled differences inside the interval.

    Returns:
        (low, high); None when a class does not occur, or too rarely to be in most resamples.

    Raises:
        ValueError: The lists differ in length.

    Example:
        >>> classes, scores = [True, False] * 9, [0.9, 0.1, 0.3, 0.4, 0.8, 0.7] * 3
        >>> roc_auc_difference_interval(classes, scores, scores, seed=0)
        (0.0, 0.0)
    """
    if roc_auc(is_positive, scores) is None or roc_auc(is_positive, other_scores) is None:
        return None
    rows, count = _unit_of_rows(len(scores), units)

    def differences(counts: np.ndarray) -> np.ndarray:
        of_rows = counts[:, rows]
        one = _auc_of_counts(is_positive, scores, of_rows)
        return one - _auc_of_counts(is_positive, other_scores, of_rows)

    return bootstrap_interval(differences, count, seed=seed, resamples=resamples, level=level)


def _unit_of_rows(rows: int, units: Sequence[Hashable] | None) -> tuple[list[int], int]:
    """Return the number of the unit of each row, and how many units there are."""
    numbers: dict[Hashable, int] = {}
    unit_of = [
        numbers.setdefault(u, len(numbers)) for u in (range(rows) if units is None else units)
    ]
    if len(unit_of) != rows:
        raise ValueError(f"{len(unit_of)} units for {rows} scores")
    return unit_of, len(numbers)


def _auc_of_counts(
    is_positive: Sequence[bool], scores: Sequence[float], counts: np.ndarray
) -> np.ndarray:
    """Return the area of each resample ``[block]`` from the counts of its rows ``[block, n]``."""
    values = np.asarray(scores, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(values[order]) > 0))
    classes = np.asarray(is_positive, dtype=bool)[order]
    # Rows of equal score stand together: of one another, half count as below.
    positives = np.add.reduceat(counts[:, order] * classes, starts, axis=1)
    negatives = np.add.reduceat(counts[:, order] * ~classes, starts, axis=1)
    below = negatives.cumsum(axis=1) - negatives / 2
    pairs = positives.sum(axis=1) * negatives.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(pairs > 0, (positives * below).sum(axis=1) / pairs, np.nan)
