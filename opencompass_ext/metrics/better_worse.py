"""Does a metric score the better of two answers higher? Agreement on pairs of known order.

Source: the evaluation of THELMA, arXiv 2505.11626, which calls a metric right on a pair when it
scores the better one higher, and gives rates without intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from opencompass_ext.metrics.binary import binomial_p, wilson_interval


class PairAgreement(NamedTuple):
    """How a metric ordered pairs of which the better one is known.

    Attributes:
        wins: Pairs whose better one scored higher.
        ties: Pairs that scored alike.
        losses: Pairs whose worse one scored higher.
        unscored: Pairs of which at least one has no score; they enter no rate.
        strict_rate: wins / (wins + ties + losses): a tie is no agreement. 0 to 1, higher is better.
        strict_rate_ci95: Wilson interval of ``strict_rate``.
        half_credit_rate: A tie counts half; 0.5 is chance whatever the number of ties.
        p_value: Exact two-sided sign test, of wins among the pairs that are no ties against 1/2.
    """

    wins: int
    ties: int
    losses: int
    unscored: int
    strict_rate: float | None
    strict_rate_ci95: tuple[float, float] | None
    half_credit_rate: float | None
    p_value: float | None


def pair_agreement(better: Sequence[float | None], worse: Sequence[float | None]) -> PairAgreement:
    """Return how often the better of a pair has the higher score.

    Args:
        better: Score of each pair's better one; None where it has none.
        worse: Score of each pair's worse one, likewise.

    Returns:
        Counts, rates and their uncertainty; a rate without a pair is None.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> seen = pair_agreement([1.0, 0.5, 0.5, None], [0.5, 0.5, 0.75, 1.0])
        >>> seen.wins, seen.ties, seen.losses, seen.unscored
        (1, 1, 1, 1)
        >>> round(seen.strict_rate, 4), seen.half_credit_rate, seen.p_value
        (0.3333, 0.5, 1.0)
    """
    pairs = list(zip(better, worse, strict=True))
    scored = [(b, w) for b, w in pairs if b is not None and w is not None]
    wins = sum(b > w for b, w in scored)
    losses = sum(b < w for b, w in scored)
    count = len(scored)
    ties = count - wins - losses
    return PairAgreement(
        wins=wins,
        ties=ties,
        losses=losses,
        unscored=len(pairs) - count,
        strict_rate=wins / count if count else None,
        strict_rate_ci95=wilson_interval(wins, count),
        half_credit_rate=(wins + ties / 2) / count if count else None,
        p_value=binomial_p(wins, wins + losses),
    )
