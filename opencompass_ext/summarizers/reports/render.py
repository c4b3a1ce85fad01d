"""A report on the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from opencompass_ext.summarizers.markdown import escaped, table_lines
from opencompass_ext.summarizers.reports.report import Report, Section, Table


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
            console.print(_draw(section.table))
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


def _draw(table: Table) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column in table.columns:
        drawn.add_column(
            Text(column.heading),
            justify="left" if column.is_text else "right",
            overflow="fold",
            # A number that breaks over two lines cannot be read; a name can.
            no_wrap=not column.is_text,
        )
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn
