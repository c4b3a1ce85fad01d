"""Which system is the best, by a score of each of its answers?

Scores of different questions cannot be compared, so systems are compared on the questions that all
of them answered, or two at a time on those that both answered.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

from opencompass_ext.metrics.bootstrap import RESAMPLES, mean_interval, median_interval
from opencompass_ext.metrics.mean import mean_of
from opencompass_ext.metrics.ranks import ranks

Interval = tuple[float, float]


class SystemScore(NamedTuple):
    """What a score says of one system.

    Attributes:
        system: Its name.
        n: Its scored answers.
        mean: Mean over them. Of systems with other questions it cannot be compared.
        mean_ci95: Its interval.
        median: Median over them.
        median_ci95: Its interval.
        common_mean: Mean over the questions that all systems answered; None when there are none.
        common_mean_ci95: Its interval.
        rank: 1 for the best: by ``common_mean``, or by ``win_rate`` where there is none.
        win_rate: Share of its comparisons with another system's answer to the same question in
            which its own scores better; equal scores count 0.5.
        comparisons: How many those are.
    """

    system: str
    n: int
    mean: float
    mean_ci95: Interval | None
    median: float
    median_ci95: Interval | None
    common_mean: float | None
    common_mean_ci95: Interval | None
    rank: float | None
    win_rate: float | None
    comparisons: int


class Ranking(NamedTuple):
    """The systems, the best first.

    Attributes:
        systems: One entry each.
        common_questions: How many questions all of them answered.
        questions: How many questions any of them answered.
        ranked_by: ``"common_mean"``, ``"win_rate"`` when no question has answers of all systems,
            None when there is nothing to compare.
    """

    systems: tuple[SystemScore, ...]
    common_questions: int
    questions: int
    ranked_by: str | None


def rank_systems(
    scores: Mapping[str, Mapping[Any, float]],
    *,
    higher_is_better: bool,
    seed: int,
    resamples: int = RESAMPLES,
) -> Ranking:
    """Return the systems in order of their scores.

    Args:
        scores: System -> question -> score of its answer.
        higher_is_better: Direction of the score.
        seed: Seed of the intervals.
        resamples: Resamples of each interval.

    Example:
        >>> scores = {"a": {1: 0.5, 2: 0.7}, "b": {1: 0.1, 2: 0.2, 3: 9.0}}
        >>> found = rank_systems(scores, higher_is_better=False, seed=0)
        >>> [(s.system, s.rank, round(s.common_mean, 2), s.win_rate) for s in found.systems]
        [('b', 1.0, 0.15, 1.0), ('a', 2.0, 0.6, 0.0)]
        >>> found.common_questions, found.questions, found.ranked_by
        (2, 3, 'common_mean')
    """
    answered = {system: dict(of_system) for system, of_system in scores.items() if of_system}
    questions = list(dict.fromkeys(q for of_system in answered.values() for q in of_system))
    common = [q for q in questions if all(q in of_system for of_system in answered.values())]
    sign = 1.0 if higher_is_better else -1.0
    wins = {system: _win_rate(system, answered, sign) for system in answered}
    common_means = {
        system: mean_of([of_system[q] for q in common]) for system, of_system in answered.items()
    }
    ranked_by, places = _ranked(common_means, wins, sign)
    found = [
        SystemScore(
            system=system,
            n=len(of_system),
            mean=math.fsum(of_system.values()) / len(of_system),
            mean_ci95=mean_interval(list(of_system.values()), seed=seed, resamples=resamples),
            median=statistics.median(of_system.values()),
            median_ci95=median_interval(list(of_system.values()), seed=seed, resamples=resamples),
            common_mean=common_means[system],
            common_mean_ci95=mean_interval(
                [of_system[q] for q in common], seed=seed, resamples=resamples
            ),
            rank=places.get(system),
            win_rate=wins[system][0],
            comparisons=wins[system][1],
        )
        for system, of_system in answered.items()
    ]
    # Systems that cannot be ranked come last, in the order of the data.
    found.sort(key=lambda s: math.inf if s.rank is None else s.rank)
    return Ranking(tuple(found), len(common), len(questions), ranked_by)


def _ranked(
    common_means: Mapping[str, float | None],
    wins: Mapping[str, tuple[float | None, int]],
    sign: float,
) -> tuple[str | None, dict[str, float]]:
    """Return by what the systems are ranked, and their ranks; nothing ranks one alone."""
    goodness = {name: sign * mean for name, mean in common_means.items() if mean is not None}
    if len(goodness) > 1:
        return "common_mean", _places(goodness)
    rates = {name: rate for name, (rate, _) in wins.items() if rate is not None}
    return ("win_rate", _places(rates)) if rates else (None, {})


def _win_rate(
    system: str, answered: Mapping[str, Mapping[Any, float]], sign: float
) -> tuple[float | None, int]:
    won = []
    for other, of_other in answered.items():
        if other == system:
            continue
        for question, score in answered[system].items():
            if question in of_other:
                lead = sign * (score - of_other[question])
                won.append(0.5 if not lead else float(lead > 0))
    return mean_of(won), len(won)


def _places(goodness: Mapping[str, float]) -> dict[str, float]:
    badness = [-value for value in goodness.values()]
    return dict(zip(goodness, ranks(badness), strict=True))
