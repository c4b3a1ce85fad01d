"""One rule for writing a table or a nested JSON value as text, in any language.

A table becomes a list item per row, in which each cell stands behind the name of its column, so
that a row can be understood, or cut off, without the rows above it::

    {"city": "Paris", "people": 2100000}         - city: Paris; people: 2100000

A JSON value becomes a list item per value at the end of a branch, behind the keys that lead to it;
the items of a list are counted from 1::

    {"hotel": {"rooms": [{"price": 90}]}}        - hotel > rooms > 1 > price: 90

Numbers, true, false and null are written as JSON writes them; behind a key an empty list is ``[]``
and an empty object ``{}``. A table without a row, and a list or object without anything in it, are
no text at all. A cell that is null or empty is left out of its row. Line breaks inside a value
become blanks. Keys and values are otherwise verbatim.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def table_to_text(table: Any) -> str:
    """Return a table as text; see the module.

    Args:
        table: A list of objects, one per row; or a list of lists, the first of which names the
            columns.

    Raises:
        ValueError: It is neither, or a row has not as many cells as there are columns.

    Example:
        >>> print(table_to_text([["城市", "人口"], ["巴黎", 2100000], ["里昂", None]]))
        - 城市: 巴黎; 人口: 2100000
        - 城市: 里昂
        >>> print(table_to_text([{"city": "Paris"}, {"city": "Lyon", "area": {"km2": 48}}]))
        - city: Paris
        - city: Lyon; area > km2: 48
    """
    lines = []
    for row in _rows(table):
        cells = [
            _leaf((str(column), *keys), value)
            for column, cell in row.items()
            for keys, value in _leaves(cell)
            if value is not None and value != ""
        ]
        if cells:
            lines.append("- " + "; ".join(cells))
    return "\n".join(lines)


def json_to_text(value: Any) -> str:
    """Return a nested JSON value as text; see the module.

    Args:
        value: What a JSON file may hold.

    Example:
        >>> print(json_to_text({"name": "Ritz", "stars": 5, "tags": ["old", True], "pets": None}))
        - name: Ritz
        - stars: 5
        - tags > 1: old
        - tags > 2: true
        - pets: null
        >>> json_to_text("as it is"), json_to_text({}), json_to_text([[], {}])
        ('as it is', '', '')
    """
    if _is_empty(value):
        return ""
    if not isinstance(value, (Mapping, list)):
        return _scalar(value)
    return "\n".join("- " + _leaf(keys, leaf) for keys, leaf in _leaves(value))


def _is_empty(value: Any) -> bool:
    """Tell whether a value holds nothing: no key, and no item but such as hold nothing."""
    if isinstance(value, Mapping):
        return not value
    return isinstance(value, list) and all(map(_is_empty, value))


def _rows(table: Any) -> list[Mapping[str, Any]]:
    if not isinstance(table, list):
        raise ValueError(
            "a table is a list of objects, or a list of lists whose first names the columns, "
            f"got {table!r:.80}"
        )
    if all(isinstance(row, Mapping) for row in table):
        return table
    if not all(isinstance(row, list) for row in table):
        raise ValueError("the rows of a table must be all objects or all lists")
    header, *rows = table
    names = [_scalar(name) for name in header]
    if len(set(names)) < len(names):
        raise ValueError(f"two columns of a table have the same name: {names!r:.80}")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise ValueError(
                f"row {number} of a table has {len(row)} cells for {len(names)} columns"
            )
    return [dict(zip(names, row, strict=True)) for row in rows]


def _leaves(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what stands at the ends of all branches, with the keys that lead there."""
    branches: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        branches = list(value.items())
    elif isinstance(value, list):
        branches = list(enumerate(value, start=1))
    if not branches:
        yield keys, value
    for key, branch in branches:
        yield from _leaves(branch, (*keys, str(key)))


def _leaf(keys: tuple[str, ...], value: Any) -> str:
    return f"{' > '.join(map(_one_line, keys))}: {_one_line(_scalar(value))}"


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _one_line(text: str) -> str:
    lines = text.splitlines()
    return " ".join(line.strip() for line in lines) if len(lines) > 1 else text
