"""A straight line through points: how much of a score is another quantity in disguise?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Line(NamedTuple):
    """The line y = slope x + intercept of least squares.

    Attributes:
        slope: Change of y for one unit of x.
        intercept: y at x = 0.
        r_squared: Share of the variance of y that the line accounts for, 0 to 1.
        n: Points.
    """

    slope: float
    intercept: float
    r_squared: float
    n: int


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line | None:
    """Return the line of ordinary least squares through points.

    Args:
        x: Such as the length of each answer.
        y: Such as its score.

    Returns:
        The line; None when x or y has fewer than two different values.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> fit_line([0, 1, 2, 3], [1, 3, 5, 7])
        Line(slope=2.0, intercept=1.0, r_squared=1.0, n=4)
        >>> fit_line([2, 2], [1, 5]) is None
        True
    """
    if len(x) != len(y):
        raise ValueError(f"{len(x)} x for {len(y)} y")
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    from_mean_x, from_mean_y = xs - xs.mean(), ys - ys.mean()
    slope = float(from_mean_x @ from_mean_y / (from_mean_x @ from_mean_x))
    r_squared = slope * float(from_mean_x @ from_mean_y) / float(from_mean_y @ from_mean_y)
    # Rounding may put points that lie on a line beyond 1.
    return Line(slope, float(ys.mean() - slope * xs.mean()), min(r_squared, 1.0), len(x))
