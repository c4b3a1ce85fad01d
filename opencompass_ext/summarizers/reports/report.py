"""What a report is made of, before it is drawn on a terminal or written as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        heading: Its heading; an arrow in it says which direction is better.
        is_text: Whether it holds words, which stand on the left, and not numbers.
    """

    heading: str
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        columns: Its columns.
        rows: Its rows, one text per column.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report.

    Attributes:
        title: Its heading.
        text: Paragraphs above the table.
        table: Its table, if any.
        notes: What a reader must know beside the numbers, one line each, below the table.
        is_detail: Whether it stands in the file only and not on the screen.
    """

    title: str
    text: tuple[str, ...] = ()
    table: Table | None = None
    notes: tuple[str, ...] = ()
    is_detail: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A report on the results of one data set.

    Attributes:
        title: Its heading.
        sections: Its parts.
    """

    title: str
    sections: tuple[Section, ...]


class UnfitResults(ValueError):
    """A results file lacks what the report that it names is made of."""


def part_of(results: Mapping[str, Any], *keys: str) -> Any:
    """Return what stands in a results file under keys, one below the other.

    Raises:
        UnfitResults: A key is not there.

    Example:
        >>> part_of({"analysis": {"systems": 3}}, "analysis", "systems")
        3
        >>> part_of({"analysis": {}}, "analysis", "systems")
        Traceback (most recent call last):
            ...
        opencompass_ext.summarizers.reports.report.UnfitResults: no 'analysis -> systems'
    """
    found: Any = results
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            raise UnfitResults(f"no {' -> '.join(keys)!r}")
        found = found[key]
    return found


def make_table(columns: Sequence[str | Column], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table whose first column holds words and whose others hold numbers.

    Args:
        columns: Headings; a ``Column`` where the rule above does not fit.
        rows: One text per column.
    """
    made = tuple(
        column if isinstance(column, Column) else Column(column, is_text=number == 0)
        for number, column in enumerate(columns)
    )
    return Table(made, tuple(tuple(row) for row in rows))
