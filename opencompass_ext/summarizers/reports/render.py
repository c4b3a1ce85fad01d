"""A report on the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from opencompass_ext.summarizers.markdown import escaped, table_lines
from opencompass_ext.summarizers.reports.report import Report, Section, Table

_UNLIMITED = 10**6


def print_report(report: Report, console: Console) -> None:
    """Print a report, without the sections that are details."""
    console.print(Text(report.title, style="bold"))
    for section in report.sections:
        if section.is_detail:
            continue
        console.print()
        console.print(Text(section.title, style="bold cyan"))
        for paragraph in section.text:
            console.print(Text(paragraph))
        if section.table is not None:
            for number, columns in enumerate(_side_by_side(section.table, console)):
                if number:
                    console.print()
                console.print(_draw(section.table, columns))
        for note in section.notes:
            console.print(Text(note, style="dim"))
    console.print()


def to_markdown(report: Report) -> str:
    """Return a report as Markdown, every section of it."""
    lines = [f"# {escaped(report.title)}"]
    for section in report.sections:
        lines += ["", *_section_lines(section)]
    return "\n".join(lines) + "\n"


def _section_lines(section: Section) -> Iterator[str]:
    yield f"## {escaped(section.title)}"
    for paragraph in section.text:
        yield ""
        yield escaped(paragraph)
    if section.table is not None:
        yield ""
        columns = section.table.columns
        yield from table_lines(
            [column.heading for column in columns],
            section.table.rows,
            is_text=[column.is_text for column in columns],
        )
    if section.notes:
        yield ""
        yield from (f"- {escaped(note)}" for note in section.notes)


def _side_by_side(table: Table, console: Console) -> list[list[int]]:
    """Return the columns of each part of a table: as many as fit, the first ones in each part.

    The first columns are those up to the last one that holds words: they name the row.
    """
    unlimited = console.options.update(max_width=_UNLIMITED)
    last_name = max((n for n, column in enumerate(table.columns) if column.is_text), default=-1)
    names = list(range(last_name + 1))
    parts: list[list[int]] = [names]
    for number in range(last_name + 1, len(table.columns)):
        longer = [*parts[-1], number]
        width = Measurement.get(console, unlimited, _draw(table, longer)).maximum
        if width <= console.width or parts[-1] == names:
            parts[-1] = longer
        else:
            parts.append([*names, number])
    return parts


def _draw(table: Table, columns: Sequence[int]) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for number in columns:
        column = table.columns[number]
        drawn.add_column(
            Text(column.heading),
            justify="left" if column.is_text else "right",
            overflow="fold",
            # A number that breaks over two lines cannot be read; a name can.
            no_wrap=not column.is_text,
        )
    for row in table.rows:
        drawn.add_row(*(Text(row[number]) for number in columns))
    return drawn
