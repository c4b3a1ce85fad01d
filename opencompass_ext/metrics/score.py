"""What every metric of one row returns, and the mean of such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opencompass_ext.metrics.mean import mean_of


class Score(NamedTuple):
    """A number, or why there is none.

    Attributes:
        value: The number; None where it has no value.
        reason: Why not; None where there is a value.

    Example:
        >>> Score(None, "no_claims")
        Score(value=None, reason='no_claims')
    """

    value: float | None
    reason: str | None = None


def mean_score(scores: Sequence[Score], *, if_empty: str) -> Score:
    """Return the mean of the scores of all parts of a row, such as its claims.

    Args:
        scores: One per part.
        if_empty: The reason of the null that no part at all gives.

    Returns:
        The mean; null with the first reason when any score is null, as a mean of the others would
        be one of fewer parts.

    Example:
        >>> mean_score([Score(1.0), Score(0.5)], if_empty="no_claims").value
        0.75
        >>> mean_score([Score(1.0), Score(None, "judge_error")], if_empty="no_claims").reason
        'judge_error'
        >>> mean_score([], if_empty="no_claims").reason
        'no_claims'
    """
    values = []
    for score in scores:
        if score.value is None:
            return score
        values.append(score.value)
    return Score(mean_of(values)) if values else Score(None, if_empty)


@dataclass(frozen=True, slots=True)
class SetScore:
    """The mean of a metric over the rows of a data set, and what it leaves out.

    Attributes:
        mean: Mean over the scored rows; None when no row is scored.
        n_scored: Rows with a value.
        n_total: All rows.
        reasons: Reason -> rows without a value for it.
    """

    mean: float | None
    n_scored: int
    n_total: int
    reasons: dict[str, int] = field(default_factory=dict)


def set_score(rows: Sequence[Score]) -> SetScore:
    """Return the mean of one metric over rows; rows without a value enter it neither way.

    Args:
        rows: One score per row.

    Returns:
        The mean, in the unit of the scores, with the counts to read it by.

    Example:
        >>> set_score([Score(1.0), Score(0.5), Score(None, "no_claims")])
        SetScore(mean=0.75, n_scored=2, n_total=3, reasons={'no_claims': 1})
    """
    values = [score.value for score in rows if score.value is not None]
    reasons = Counter(score.reason or "unknown" for score in rows if score.value is None)
    return SetScore(
        mean=mean_of(values),
        n_scored=len(values),
        n_total=len(rows),
        reasons=dict(reasons),
    )
