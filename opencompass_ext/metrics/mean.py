"""The mean, of nothing too."""

from __future__ import annotations

import math
from collections.abc import Collection


def mean_of(values: Collection[float]) -> float | None:
    """Return the mean of numbers; None of no number, which is not 0.

    It is rounded once, so the order of the numbers changes nothing, not even the last bit of it.

    Args:
        values: The numbers, in any unit.

    Example:
        >>> mean_of([1.0, 2.0, 6.0]), mean_of([])
        (3.0, None)
    """
    return math.fsum(values) / len(values) if values else None
