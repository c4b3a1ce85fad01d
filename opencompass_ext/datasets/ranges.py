"""Which rows a ``test_range`` or ``train_range`` of a reader config stands for."""

from __future__ import annotations

import random
import re
from typing import NoReturn

from opencompass_ext.errors import ConfigError

_INDEX = r"\s*([+-]?\d+)?\s*"
_SLICE = re.compile(rf"\[{_INDEX}:{_INDEX}(?::{_INDEX})?\]")


def select_rows(total: int, rows: int | float | str | None) -> range | list[int]:
    """Return the indices of the rows that a range stands for, in OpenCompass's sense.

    Args:
        total: How many rows there are.
        rows: One of

            - None: all rows;
            - text: a slice, ``"[10:20]"``, or slices applied one after the other,
              ``"[100:][:10]"``, in Python's sense;
            - a whole number: that many rows, drawn at random, or all when there are fewer;
            - a number below 1: that share of the rows, drawn at random.

            The draw is seeded by the number of rows drawn, as in OpenCompass: the same number
            always gives the same rows, in the same (shuffled) order.

    Raises:
        ConfigError: ``rows`` is none of these, or stands for no row at all.

    Example:
        >>> list(select_rows(100, "[10:20][::5]"))
        [10, 15]
        >>> select_rows(5, 2) == select_rows(5, 0.4)
        True
    """
    if rows is None:
        return range(total)
    if isinstance(rows, str):
        selected = _slices(range(total), rows)
    elif isinstance(rows, (int, float)) and not isinstance(rows, bool) and rows > 0:
        if rows == float("inf"):
            raise _wrong(rows)
        size = int(rows * total) if rows < 1 else rows
        if size != int(size):
            raise _wrong(rows)
        if size >= total:
            return range(total)
        shuffled = list(range(total))
        random.Random(int(size)).shuffle(shuffled)
        return shuffled[: int(size)] or _none_left(total, rows)
    else:
        raise _wrong(rows)
    return selected or _none_left(total, rows)


def _slices(rows: range, text: str) -> range:
    position = 0
    stripped = text.strip()
    while position < len(stripped):
        match = _SLICE.match(stripped, position)
        if match is None or (match.group(3) is not None and int(match.group(3)) == 0):
            raise _wrong(text)
        rows = rows[slice(*(None if part is None else int(part) for part in match.groups()))]
        position = match.end()
    if position == 0:
        raise _wrong(text)
    return rows


def _wrong(rows: object) -> ConfigError:
    return ConfigError(
        f"a range of rows is a slice such as '[0:100]', a number of rows above 0, "
        f"or a share of them between 0 and 1; got {rows!r}"
    )


def _none_left(total: int, rows: object) -> NoReturn:
    raise ConfigError(f"the range {rows!r} selects none of the {total} rows")
