"""From rows to a ``datasets.Dataset``, with errors that name the column and the rows."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any

from opencompass_ext.datasets.row_files import FileRows
from opencompass_ext.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

logger = logging.getLogger(__name__)

_KINDS = {bool: "true/false", int: "numbers", float: "numbers", str: "text", list: "lists"}
_SCALARS = (bool, int, float, str)


def rows_to_dataset(file: FileRows) -> Dataset:
    """Return the rows as a data set held in memory; no cache file is written.

    A column that only some rows have is null in the others. A column that mixes numbers, text and
    true/false becomes text, every value as its JSON stands, with a warning.

    Raises:
        DataError: A column mixes other types that one Arrow column cannot hold, holds half of a
            surrogate pair, or no row has a column.
    """
    import pyarrow as pa

    names: dict[str, None] = {}
    for row in file.rows:
        names.update(dict.fromkeys(row))
    if not names:
        raise DataError(f"{file.where(0)}: the object is empty: a row needs at least one column")
    columns = {name: [row.get(name) for row in file.rows] for name in names}
    return table_to_dataset(
        pa.table({name: _to_arrow(file, name, values) for name, values in columns.items()})
    )


def table_to_dataset(table: pa.Table) -> Dataset:
    """Return an Arrow table as a data set held in memory."""
    from datasets import Dataset
    from datasets.table import InMemoryTable

    return Dataset(InMemoryTable(table))


def _to_arrow(file: FileRows, name: str, values: list[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError) as error:
        _refuse_half_pairs(file, name, values)
        mix = _mixed_kinds(file, name, values)
        if mix is None:
            raise _first_misfit(file, name, values) from error
        if not all(value is None or isinstance(value, _SCALARS) for value in values):
            raise DataError(f"{mix}: give every row the same type") from error
        logger.warning("%s: all its values are read as text", mix)
        return pa.array([_as_text(value) for value in values], pa.string())


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _refuse_half_pairs(file: FileRows, name: str, values: list[Any]) -> None:
    for row, value in enumerate(values):
        half = re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False))
        if half:
            raise DataError(
                f"{file.where(row)}: column {name!r} holds half of a surrogate pair, "
                f"{half[0]!r}, which is no character: write the pair whole"
            )


def _mixed_kinds(file: FileRows, name: str, values: list[Any]) -> str | None:
    """Return which column mixes which kinds of values, and where each kind is first; or None."""
    first_of: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is not None:
            first_of.setdefault(_KINDS.get(type(value), "objects"), row)
    if len(first_of) < 2:
        return None
    seen = " and ".join(f"{kind} ({file.where(row)})" for kind, row in first_of.items())
    return f"column {name!r} mixes {seen}"


def _first_misfit(file: FileRows, name: str, values: list[Any]) -> DataError:
    """Return the error for the first row that does not fit the rows before it."""
    import pyarrow as pa

    fitting, failing, reason = 0, len(values), ""
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        try:
            pa.array(values[:middle])
            fitting = middle
        except (pa.ArrowException, OverflowError, UnicodeError, TypeError):
            failing = middle
    try:
        pa.array(values[:failing])
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError) as error:
        reason = str(error)
    shown = repr(values[failing - 1])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return DataError(
        f"{file.where(failing - 1)}: column {name!r} holds {shown}, "
        f"which does not fit the rows before it: {reason}"
    )
