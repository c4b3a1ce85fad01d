"""What stands in a column of a row of the dataset, checked."""

from __future__ import annotations

from typing import Any

from opencompass_ext.errors import DataError


def checked_text(column: str, value: Any) -> str:
    """Return the value of a column that must hold text.

    Raises:
        DataError: It holds something else.
    """
    if not isinstance(value, str):
        raise DataError(f"the column {column!r} must hold text, got {value!r:.80}")
    return value
