"""What every metric of one row returns."""

from __future__ import annotations

from typing import NamedTuple


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
