"""Batches by a budget of padded tokens, longest rows first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class BatchLimits(NamedTuple):
    """What one forward pass may hold.

    Attributes:
        tokens: Padded tokens read: rows x longest row.
        cache_tokens: Tokens whose keys and values are held at once, where a shared beginning is
            copied for every row.
        rows: Most rows; None for no limit.
    """

    tokens: int
    cache_tokens: int
    rows: int | None = None

    def allow(self, rows: int, longest: int, prefix: int = 0) -> bool:
        """Tell whether a batch fits. One row always does: it cannot be made smaller."""
        if rows == 1:
            return True
        if self.rows is not None and rows > self.rows:
            return False
        fits_cache = prefix == 0 or rows * (prefix + longest) <= self.cache_tokens
        return rows * longest <= self.tokens and fits_cache


def make_batches(
    lengths: Mapping[int, int], limits: BatchLimits, *, prefix: int = 0
) -> list[list[int]]:
    """Group rows of like length.

    Longest first, so that the batch that needs most memory is met at once and not after an hour.

    Args:
        lengths: Row -> tokens to read.
        limits: What a batch may hold.
        prefix: Tokens of the shared beginning in the cache.

    Returns:
        Batches of row indices; each row stands in exactly one.

    Example:
        >>> make_batches({0: 2, 1: 5, 2: 5, 3: 1}, BatchLimits(tokens=10, cache_tokens=0))
        [[1, 2], [0, 3]]
    """
    batches: list[list[int]] = []
    longest = 0
    for row in sorted(lengths, key=lambda row: (-lengths[row], row)):
        if batches and limits.allow(len(batches[-1]) + 1, longest, prefix):
            batches[-1].append(row)
        else:
            batches.append([row])
            longest = lengths[row]
    return batches
