"""Two classes: how well predictions, or scores, tell them apart.

Where a number has no value (a class that does not occur, nothing counted) it is None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from opencompass_ext.metrics.bootstrap import RESAMPLES, bootstrap_interval


class Confusion(NamedTuple):
    """How often each class was predicted for each class.

    Attributes:
        tp: Positive, predicted positive.
        fp: Negative, predicted positive.
        fn: Positive, predicted negative.
        tn: Negative, predicted negative.
    """

    tp: float
    fp: float
    fn: float
    tn: float


def f1(counts: Confusion) -> float | None:
    """Return the F1 of the positive class, the harmonic mean of its precision and recall.

    Args:
        counts: The confusion counts. Swap them (``Confusion(tn, fn, fp, tp)``) for the F1 of the
            negative class.

    Returns:
        0 to 1, higher is better. None when the class neither occurs nor is predicted.

    Example:
        >>> f1(Confusion(tp=2, fp=1, fn=1, tn=0)) == 2 / 3
        True
        >>> f1(Confusion(tp=0, fp=0, fn=0, tn=5)) is None
        True
    """
    total = 2 * counts.tp + counts.fp + counts.fn
    return 2 * counts.tp / total if total else None


def mcc(counts: Confusion) -> float | None:
    """Return Matthews' correlation between the classes and their predictions.

    Args:
        counts: The confusion counts.

    Returns:
        -1 (always wrong) to 1 (always right), 0 is chance. None when one class never occurs or one
        is never predicted: there is then nothing to correlate.

    References:
        Matthews, Comparison of the predicted and observed secondary structure of T4 phage lysozyme
        (1975).

    Example:
        >>> mcc(Confusion(tp=3, fp=0, fn=0, tn=2))
        1.0
        >>> mcc(Confusion(tp=2, fp=1, fn=1, tn=2)) == 1 / 3
        True
        >>> mcc(Confusion(tp=4, fp=1, fn=0, tn=0)) is None
        True
    """
    tp, fp, fn, tn = counts
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(product) if product else None


def mcc_of_arrays(tp: np.ndarray, fp: np.ndarray, fn: np.ndarray, tn: np.ndarray) -> np.ndarray:
    """Return Matthews' correlation of many confusion counts at once.

    Args:
        tp: Counts ``[n]``, as those of ``Confusion``.
        fp: Counts ``[n]``.
        fn: Counts ``[n]``.
        tn: Counts ``[n]``.

    Returns:
        Values ``[n]``, NaN where ``mcc`` is None.

    Example:
        >>> ones, zeros = np.ones(2), np.zeros(2)
        >>> mcc_of_arrays(ones, zeros, np.array([0.0, 1.0]), ones).tolist()
        [1.0, 0.5]
    """
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(product > 0, (tp * tn - fp * fn) / np.sqrt(product), np.nan)


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
    numbers: dict[Hashable, int] = {}
    names = range(len(scores)) if units is None else units
    unit_of = [numbers.setdefault(unit, len(numbers)) for unit in names]
    if len(unit_of) != len(scores):
        raise ValueError(f"{len(unit_of)} units for {len(scores)} scores")
    return bootstrap_interval(
        lambda counts: _auc_of_counts(is_positive, scores, counts[:, unit_of]),
        len(numbers),
        seed=seed,
        resamples=resamples,
        level=level,
    )


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


def wilson_interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float] | None:
    """Return Wilson's score interval of a share; unlike the usual one it holds for small counts.

    Args:
        successes: How many of the trials came out so.
        trials: How many there were.
        level: Confidence.

    Returns:
        (low, high) inside [0, 1]. None without a trial.

    Raises:
        ValueError: Not 0 <= successes <= trials.

    References:
        Wilson, Probable Inference, the Law of Succession, and Statistical Inference (1927).

    Example:
        >>> [round(end, 4) for end in wilson_interval(15, 20)]
        [0.5313, 0.8881]
        >>> [round(end, 4) for end in wilson_interval(0, 20)]
        [0.0, 0.1611]
    """
    _check_share(successes, trials)
    if not trials:
        return None
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + level) / 2)
    share = successes / trials
    middle = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    # At the ends the formula gives 0 and 1, up to a rounding that may fall outside.
    low = 0.0 if successes == 0 else (middle - half) / scale
    high = 1.0 if successes == trials else (middle + half) / scale
    return low, high


def binomial_p(successes: int, trials: int, chance: float = 0.5) -> float | None:
    """Return the exact two-sided p-value of a share against chance.

    Args:
        successes: How many of the trials came out so.
        trials: How many there were.
        chance: The probability of success under the hypothesis that is tested.

    Returns:
        0 to 1: the probability of all outcomes no likelier than the one seen. None without a trial.

    Raises:
        ValueError: Not 0 <= successes <= trials.

    Example:
        >>> binomial_p(5, 5)
        0.0625
        >>> round(binomial_p(15, 20), 4)
        0.0414
    """
    _check_share(successes, trials)
    if not trials:
        return None
    from scipy.stats import binomtest

    return float(binomtest(successes, trials, chance).pvalue)


def _check_share(successes: int, trials: int) -> None:
    if not 0 <= successes <= trials:
        raise ValueError(f"expected 0 <= successes <= trials, got {successes} of {trials}")
