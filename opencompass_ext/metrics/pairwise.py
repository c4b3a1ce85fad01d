"""Does a score prefer the answer that people prefer?

A comparison is two answers to one question, one of which people preferred. A score predicts the
first answer when it holds it for the better one. The comparisons of one question depend on one
another, so the intervals resample questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from opencompass_ext.metrics.binary import Confusion, f1, mcc, mcc_of_arrays
from opencompass_ext.metrics.bootstrap import (
    MIN_UNITS,
    RESAMPLES,
    bootstrap_interval,
    mean_interval,
    paired_permutation_p,
)

Interval = tuple[float, float]


class Agreement(NamedTuple):
    """How well a score agrees with preferences.

    Attributes:
        n: Comparisons.
        questions: Questions they are about.
        equal_scores: Comparisons whose two answers score alike.
        accuracy: Share of comparisons predicted right, 0 to 1; equal scores count 0.5.
        accuracy_ci95: Its interval.
        f1_first: F1 of "the first answer is preferred"; equal scores are left out.
        f1_second: F1 of "the second answer is preferred"; equal scores are left out.
        mcc: Matthews' correlation, -1 to 1; equal scores are left out.
        mcc_ci95: Its interval; None on fewer than ``bootstrap.MIN_UNITS`` questions.
    """

    n: int
    questions: int
    equal_scores: int
    accuracy: float | None
    accuracy_ci95: Interval | None
    f1_first: float | None
    f1_second: float | None
    mcc: float | None
    mcc_ci95: Interval | None


class Difference(NamedTuple):
    """How much oftener one score is right than another, on the same comparisons.

    Attributes:
        value: Accuracy of the one minus accuracy of the other.
        ci95: Its interval, from a paired bootstrap.
        p: Two-sided p-value of a paired permutation test.
    """

    value: float | None
    ci95: Interval | None
    p: float | None


def credits(margins: Sequence[float], is_first_preferred: Sequence[bool]) -> list[float]:
    """Return for each comparison 1 when it is predicted right, 0 when wrong, 0.5 at equal scores.

    Args:
        margins: By how much the score holds the first answer for the better one: above 0 it
            predicts the first, below 0 the second.
        is_first_preferred: What people preferred.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> credits([0.3, -2.0, 0.0], [True, True, False])
        [1.0, 0.0, 0.5]
    """
    pairs = zip(margins, is_first_preferred, strict=True)
    return [0.5 if not margin else float((margin > 0) == first) for margin, first in pairs]


def agreement(
    margins: Sequence[float],
    is_first_preferred: Sequence[bool],
    questions: Sequence[Hashable],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> Agreement:
    """Return how well a score agrees with preferences.

    Which of two answers stands first is an accident of the data. Accuracy does not depend on it;
    F1 and MCC do.

    Args:
        margins: See ``credits``.
        is_first_preferred: What people preferred; comparisons that ended in a tie are left out
            beforehand.
        questions: The question of each comparison.
        seed: Seed of the intervals.
        resamples: Resamples of each interval.

    Raises:
        ValueError: The lists differ in length.

    References:
        arXiv 2411.15320 reports F1 and MCC of such predictions.

    Example:
        >>> found = agreement([1, -1, 2, 0], [True, False, False, True], "abcd", seed=0)
        >>> found.accuracy, found.equal_scores
        (0.625, 1)
        >>> round(found.f1_first, 4), found.mcc
        (0.6667, 0.5)
    """
    right = credits(margins, is_first_preferred)
    numbers: dict[Hashable, int] = {}
    of_row = [numbers.setdefault(question, len(numbers)) for question in questions]
    tables = np.zeros((len(numbers), 4))
    for margin, first, question in zip(margins, is_first_preferred, of_row, strict=True):
        if margin:
            tables[question, _cell(margin > 0, first)] += 1
    counts = Confusion(*tables.sum(axis=0).tolist())
    # Resamples of few questions often lack a class, and those that do not differ little: the
    # interval would leave out 0 where the accuracy may be chance.
    mcc_ci95 = None
    if len(numbers) >= MIN_UNITS:
        mcc_ci95 = bootstrap_interval(
            lambda drawn: mcc_of_arrays(*(drawn @ tables).T),
            len(numbers),
            seed=seed,
            resamples=resamples,
        )
    return Agreement(
        n=len(right),
        questions=len(numbers),
        equal_scores=sum(not margin for margin in margins),
        accuracy=sum(right) / len(right) if right else None,
        accuracy_ci95=mean_interval(right, of_row, seed=seed, resamples=resamples),
        f1_first=f1(counts),
        f1_second=f1(Confusion(counts.tn, counts.fn, counts.fp, counts.tp)),
        mcc=mcc(counts),
        mcc_ci95=mcc_ci95,
    )


def accuracy_difference(
    credits_of_one: Sequence[float],
    credits_of_other: Sequence[float],
    questions: Sequence[Hashable],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> Difference:
    """Return how much oftener one score is right than another, on the same comparisons.

    Args:
        credits_of_one: ``credits`` of the one score.
        credits_of_other: ``credits`` of the other, for the same comparisons in the same order.
        questions: The question of each comparison; whole questions are resampled.
        seed: Seed of the interval and the p-value.
        resamples: Resamples of the interval.

    Raises:
        ValueError: The lists differ in length.

    Example:
        >>> accuracy_difference([1, 1, 0, 1], [1, 0, 0, 1], "abcd", seed=0).value
        0.25
    """
    pairs = zip(credits_of_one, credits_of_other, strict=True)
    differences = [one - other for one, other in pairs]
    if not differences:
        return Difference(None, None, None)
    return Difference(
        value=sum(differences) / len(differences),
        ci95=mean_interval(differences, questions, seed=seed, resamples=resamples),
        p=paired_permutation_p(differences, questions, seed=seed),
    )


def majority(winners: Iterable[str]) -> str:
    """Return who won most of the votes on one pair, ``"tie"`` when two have as many.

    Args:
        winners: One vote each: ``"a"``, ``"b"`` or ``"tie"``.

    Example:
        >>> majority(["a", "tie", "a"]), majority(["a", "b"]), majority(["tie", "tie", "b"])
        ('a', 'tie', 'tie')
    """
    ranked = Counter(winners).most_common()
    is_shared = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
    return "tie" if is_shared or not ranked else ranked[0][0]


def _cell(predicts_first: bool, is_first: bool) -> int:
    """Return the place of a comparison among the counts of ``Confusion``."""
    names = {(True, True): "tp", (True, False): "fp", (False, True): "fn", (False, False): "tn"}
    return Confusion._fields.index(names[bool(predicts_first), bool(is_first)])
