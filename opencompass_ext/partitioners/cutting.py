"""Cutting the rows of a dataset."""

from __future__ import annotations

import itertools

from opencompass_ext.errors import ConfigError
from opencompass_ext.records import RowRange


def cut_evenly(rows: RowRange, count: int) -> list[RowRange]:
    """Return ``rows`` in ``count`` ranges whose lengths differ by one at most.

    Example:
        >>> [str(part) for part in cut_evenly(RowRange(0, 10, 10), 3)]
        ['[0:4]', '[4:7]', '[7:10]']
    """
    length, longer = divmod(rows.stop - rows.start, count)
    starts = [rows.start + i * length + min(i, longer) for i in range(count + 1)]
    return [RowRange(a, b, rows.total) for a, b in itertools.pairwise(starts)]


def cut_by_length(total: int, length: int) -> list[RowRange]:
    """Return all rows in ranges of ``length``; the last may be shorter.

    Example:
        >>> [str(part) for part in cut_by_length(10, 4)]
        ['[0:4]', '[4:8]', '[8:10]']
    """
    return [RowRange(i, min(i + length, total), total) for i in range(0, total, length)]


def check_strategy(kind: str, strategy: str) -> None:
    """Check that ``strategy`` is one of OpenCompass's two.

    Raises:
        ConfigError: It is not.
    """
    if strategy not in ("heuristic", "split"):
        raise ConfigError(f"{kind}: strategy must be 'heuristic' or 'split', got {strategy!r}")
