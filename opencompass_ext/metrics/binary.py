"""Two classes: how often predictions are right, and how sure one can be of a share.

Where a number has no value (a class that does not occur, nothing counted) it is None, never 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


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
