"""Does a score put answers in the order that people put them?

Ranks are taken within a question, because scores of different questions cannot be compared: some
questions are harder to read than others. Equal values share the mean of their ranks.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from opencompass_ext.metrics.bootstrap import RESAMPLES, bootstrap_interval, mean_interval
from opencompass_ext.metrics.mean import mean_of
from opencompass_ext.metrics.ranks import Correlation, kendall_tau_b, ranks

Interval = tuple[float, float]


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


class TauDifference(NamedTuple):
    """How much better one score agrees with ranks than another.

    Attributes:
        value: Pooled tau-b of the one minus that of the other; None when either has none.
        ci95: Its interval, from a paired bootstrap over questions.
    """

    value: float | None
    ci95: Interval | None


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
    ranked = _ranked(scores, gold, questions)
    pooled = [pair for group in ranked for pair in group]
    tables = _rank_tables(ranked)
    own = _tau_b_of_tables(tables)
    defined = own[np.isfinite(own)].tolist()
    return RankAgreement(
        pooled=kendall_tau_b([x for x, _ in pooled], [y for _, y in pooled]),
        pooled_ci95=bootstrap_interval(
            lambda counts: _resampled(tables, counts), len(ranked), seed=seed, resamples=resamples
        ),
        mean=mean_of(defined),
        mean_ci95=mean_interval(defined, seed=seed, resamples=resamples),
        questions=len(ranked),
        questions_in_mean=len(defined),
    )


def pooled_tau(
    scores: Sequence[float], gold: Sequence[float], questions: Sequence[Hashable]
) -> float | None:
    """Return ``pooled`` of ``rank_agreement`` alone, without p-value and intervals.

    Args:
        scores: See ``rank_agreement``.
        gold: See ``rank_agreement``.
        questions: See ``rank_agreement``.

    Raises:
        ValueError: The lists differ in length.

    Example:
        >>> pooled_tau([0.1, 0.2, 5.0, 4.0], [1, 2, 1, 2], "aabb")
        0.0
        >>> pooled_tau([1.0], [1], "a") is None
        True
    """
    tables = _rank_tables(_ranked(scores, gold, questions))
    value = float(_resampled(tables, np.ones((1, len(tables))))[0])
    return None if math.isnan(value) else value


def rank_agreement_difference(
    scores: Sequence[float],
    other_scores: Sequence[float],
    gold: Sequence[float],
    questions: Sequence[Hashable],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> TauDifference:
    """Return how much better one score agrees with ranks than another, on the same answers.

    Args:
        scores: The one score of each answer, see ``rank_agreement``.
        other_scores: The other score of each answer.
        gold: The given rank of each answer.
        questions: The question of each answer; whole questions are resampled.
        seed: Seed of the interval.
        resamples: Resamples of the interval.

    Raises:
        ValueError: The lists differ in length.

    Example:
        >>> gold, questions = [1, 2, 1, 2], "aabb"
        >>> rank_agreement_difference([1, 2, 1, 2], [2, 1, 2, 1], gold, questions, seed=0)
        TauDifference(value=2.0, ci95=(2.0, 2.0))
    """
    tables, others = (
        _rank_tables(_ranked(side, gold, questions)) for side in (scores, other_scores)
    )
    everything = np.ones((1, len(tables)))
    value = float((_resampled(tables, everything) - _resampled(others, everything))[0])
    if math.isnan(value):
        return TauDifference(None, None)
    interval = bootstrap_interval(
        lambda counts: _resampled(tables, counts) - _resampled(others, counts),
        len(tables),
        seed=seed,
        resamples=resamples,
    )
    return TauDifference(value, interval)


def _ranked(
    scores: Sequence[float], gold: Sequence[float], questions: Sequence[Hashable]
) -> list[list[tuple[float, float]]]:
    """Return the ranks that score and gold give each answer among those to its question."""
    groups: dict[Hashable, list[tuple[float, float]]] = {}
    for score, rank, question in zip(scores, gold, questions, strict=True):
        groups.setdefault(question, []).append((score, rank))
    ranked = []
    for group in groups.values():
        score_ranks, gold_ranks = (ranks(side) for side in zip(*group, strict=True))
        ranked.append(list(zip(score_ranks, gold_ranks, strict=True)))
    return ranked


def _resampled(tables: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the pooled tau-b ``[block]`` of resamples that draw questions so often."""
    return _tau_b_of_tables(np.tensordot(counts, tables, axes=1))


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
