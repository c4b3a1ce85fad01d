"""Two systems on the same rows: how far are they apart, and could that be chance?"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from opencompass_ext.metrics.bootstrap import mean_interval, paired_permutation_p
from opencompass_ext.metrics.mean import mean_of

FEW_ROWS = 20
"""Below so many common rows a comparison says little, whatever its p-value."""


class PairedComparison(NamedTuple):
    """A metric of two systems on the rows on which both have a value.

    Attributes:
        n_common: How many those rows are.
        n_first: Rows on which the first has a value.
        n_second: Rows on which the second has one.
        mean_first: Mean of the first over the common rows.
        mean_second: Mean of the second over the common rows.
        difference: ``mean_first - mean_second``.
        difference_ci95: Paired bootstrap interval of the difference.
        p_value: Paired permutation test, two-sided.
    """

    n_common: int
    n_first: int
    n_second: int
    mean_first: float | None
    mean_second: float | None
    difference: float | None
    difference_ci95: tuple[float, float] | None
    p_value: float | None


def compare_paired(
    first: Mapping[Hashable, float | None],
    second: Mapping[Hashable, float | None],
    *,
    seed: int,
) -> PairedComparison:
    """Return how two systems differ on the rows that both are scored on.

    Means over each system's own rows would favour the one whose hard rows have no value.

    Args:
        first: Row -> value of the first system; None where it has none.
        second: The same of the second.
        seed: Seed of the resampling.

    Returns:
        Means, difference, interval and p-value; None where no row, or for the interval only one,
        is common.

    Example:
        >>> found = compare_paired({"a": 1.0, "b": 0.5, "c": 0.0}, {"a": 0.5, "b": 0.5, "c": None},
        ...                        seed=0)
        >>> found.n_common, found.n_first, found.n_second
        (2, 3, 2)
        >>> found.mean_first, found.mean_second, found.difference
        (0.75, 0.5, 0.25)
    """
    own = {row: value for row, value in first.items() if value is not None}
    other = {row: value for row, value in second.items() if value is not None}
    pairs = [(value, other[row]) for row, value in own.items() if row in other]
    differences = [a - b for a, b in pairs]
    return PairedComparison(
        n_common=len(pairs),
        n_first=len(own),
        n_second=len(other),
        mean_first=mean_of([a for a, _ in pairs]),
        mean_second=mean_of([b for _, b in pairs]),
        difference=mean_of(differences),
        difference_ci95=mean_interval(differences, seed=seed),
        p_value=paired_permutation_p(differences, seed=seed),
    )
