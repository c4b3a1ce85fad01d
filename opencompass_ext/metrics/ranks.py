"""Does a score put answers in the order that people put them?

Ranks are taken within a question, because scores of different questions cannot be compared: some
questions are harder to read than others. Equal values share the mean of their ranks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from opencompass_ext.metrics.bootstrap import RESAMPLES, bootstrap_interval, mean_interval

Interval = tuple[float, float]


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


class RankAgreement(NamedTuple):
    """How well a score agrees with ranks given within questions.

    Attributes:
        pooled: Kendall's tau-b over all (question, answer) pairs, by their ranks in the question.
            Its p-value takes them for independent, which ranks of one question are not.
        pooled_ci95: Its interval, resampling questions.
        mean: Mean of each question's own tau-b; None when no question has one.
        mean_ci95: Its interval, resampling questions.
        questions: Questions in ``pooled``.
        questions_in_mean: Questions with a tau-b of their own: those with two different values on
            both sides.
    """

    pooled: Correlation
    pooled_ci95: Interval | None
    mean: float | None
    mean_ci95: Interval | None
    questions: int
    questions_in_mean: int


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


def rank_agreement(
    scores: Sequence[float],
    gold: Sequence[float],
    questions: Sequence[Hashable],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> RankAgreement:
    """Return how well a score puts the answers of each question in the given order.

    Args:
        scores: The score of each answer, low for the best one if low ranks are the best.
        gold: The given rank of each answer within its question. Only the order counts: the ranks
            are taken anew among the answers that are here.
        questions: The question of each answer.
        seed: Seed of the intervals.
        resamples: Resamples of each interval.

    Raises:
        ValueError: The lists differ in length.

    References:
        arXiv 2411.15320 reports tau-b and its p-value over ranks pooled in this way.

    Example:
        >>> found = rank_agreement([0.1, 0.2, 5.0, 4.0], [1, 2, 1, 2], "aabb", seed=0)
        >>> found.pooled.value, found.mean, found.questions
        (0.0, 0.0, 2)
    """
    groups: dict[Hashable, list[tuple[float, float]]] = {}
    for score, rank, question in zip(scores, gold, questions, strict=True):
        groups.setdefault(question, []).append((score, rank))
    ranked = []
    for group in groups.values():
        score_ranks, gold_ranks = (ranks(side) for side in zip(*group, strict=True))
        ranked.append(list(zip(score_ranks, gold_ranks, strict=True)))
    pooled = [pair for group in ranked for pair in group]
    tables = _rank_tables(ranked)
    own = _tau_b_of_tables(tables)
    defined = own[np.isfinite(own)].tolist()

    def resampled(counts: np.ndarray) -> np.ndarray:
        return _tau_b_of_tables((counts @ tables.reshape(len(tables), -1)).reshape(-1, *shape))

    shape = tables.shape[1:]
    return RankAgreement(
        pooled=kendall_tau_b([x for x, _ in pooled], [y for _, y in pooled]),
        pooled_ci95=bootstrap_interval(resampled, len(ranked), seed=seed, resamples=resamples),
        mean=math.fsum(defined) / len(defined) if defined else None,
        mean_ci95=mean_interval(defined, seed=seed, resamples=resamples),
        questions=len(ranked),
        questions_in_mean=len(defined),
    )


def _rank_tables(ranked: Sequence[Sequence[tuple[float, float]]]) -> np.ndarray:
    """Return how often each question has each pair of ranks ``[question, x, y]``.

    Ranks are few, so these tables say all there is to know, in little room.
    """
    xs = {x: i for i, x in enumerate(sorted({x for group in ranked for x, _ in group}))}
    ys = {y: i for i, y in enumerate(sorted({y for group in ranked for _, y in group}))}
    tables = np.zeros((len(ranked), len(xs), len(ys)))
    for question, group in enumerate(ranked):
        for x, y in group:
            tables[question, xs[x], ys[y]] += 1
    return tables


def _tau_b_of_tables(tables: np.ndarray) -> np.ndarray:
    """Return tau-b ``[n]`` of tables ``[n, x, y]`` of how often each (x, y) occurs, or NaN."""

    def above(counts: np.ndarray, axis: int) -> np.ndarray:
        return np.flip(np.flip(counts, axis).cumsum(axis), axis) - counts

    larger_x = above(tables, 1)
    concordant = (tables * above(larger_x, 2)).sum(axis=(1, 2))
    smaller_y = larger_x.cumsum(axis=2) - larger_x
    discordant = (tables * smaller_y).sum(axis=(1, 2))

    def pairs(counts: np.ndarray) -> np.ndarray:
        return (counts * (counts - 1) / 2).sum(axis=-1)

    total = tables.sum(axis=(1, 2))
    all_pairs = total * (total - 1) / 2
    untied_x = all_pairs - pairs(tables.sum(axis=2))
    untied_y = all_pairs - pairs(tables.sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return (concordant - discordant) / np.sqrt(untied_x * untied_y)


def _is_constant(values: Sequence[float]) -> bool:
    return len(set(values)) < 2


def _check_lengths(x: Sequence[float], y: Sequence[float]) -> None:
    if len(x) != len(y):
        raise ValueError(f"{len(x)} values on one side, {len(y)} on the other")
