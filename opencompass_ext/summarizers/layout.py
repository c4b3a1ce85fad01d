"""The summary as text: for the screen, as plain text, as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from opencompass_ext.summarizers.markdown import escaped, table_lines
from opencompass_ext.summarizers.table import LEADING_COLUMNS, SummaryTable

_UNLIMITED = 10**6
# Wide enough for a few models side by side; a log can be scrolled, a wrapped line not unwrapped.
_WIDTH_WITHOUT_TERMINAL = 160
_NOTES_ON_SCREEN = 20


def print_table(table: SummaryTable) -> None:
    """Print the summary; models that do not fit side by side go into tables one below the other.

    Failed tasks are left to the report that the run ends with.
    """
    console = screen()
    for part in _side_by_side(table, console):
        console.print(_draw(table, part, repeat_names=False))
        console.print()
    for note in table.notes[:_NOTES_ON_SCREEN]:
        console.print(note, soft_wrap=True)
    left_out = len(table.notes) - _NOTES_ON_SCREEN
    if left_out > 0:
        console.print(f"... and {left_out} more notes in the summary files")


def to_text(table: SummaryTable) -> str:
    """Return the summary as plain text: one table, as wide as it takes, and the notes."""
    file = io.StringIO()
    console = _console(file=file, width=_UNLIMITED, color_system=None)
    console.print(_draw(table, range(len(table.models)), repeat_names=True))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    return "\n".join([*lines, "", *table.failures, *table.notes]) + "\n"


def to_csv(table: SummaryTable) -> str:
    """Return the summary as CSV: the numbers in full, without intervals and notes."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*LEADING_COLUMNS, *table.models])
    for row in table.rows:
        writer.writerow([*row.leading, *(cell.plain for cell in row.cells)])
    return file.getvalue()


def to_markdown(table: SummaryTable) -> str:
    """Return the summary as a Markdown table, and the notes as a list below it."""
    lines = list(
        table_lines(
            [*LEADING_COLUMNS, *table.models],
            [[*row.leading, *(cell.shown for cell in row.cells)] for row in table.rows],
            is_text=[True] * len(LEADING_COLUMNS) + [False] * len(table.models),
        )
    )
    notes = [f"- {escaped(note)}" for note in (*table.failures, *table.notes)]
    return "\n".join([*lines, "", *notes] if notes else lines) + "\n"


def screen() -> Console:
    """Return the console that a summary is printed on."""
    console = _console()
    return console if console.is_terminal else _console(width=_WIDTH_WITHOUT_TERMINAL)


def _console(**options: Any) -> Console:
    # What is printed is data: brackets in it are no markup, and colons no emoji.
    return Console(markup=False, highlight=False, emoji=False, **options)


def _side_by_side(table: SummaryTable, console: Console) -> list[list[int]]:
    """Return the models of each part of the table: as many as fit, but at least one."""
    unlimited = console.options.update(max_width=_UNLIMITED)
    parts: list[list[int]] = []
    for number in range(len(table.models)):
        longer = [*parts[-1], number] if parts else [number]
        drawn = _draw(table, longer, repeat_names=False)
        fits = Measurement.get(console, unlimited, drawn).maximum <= console.width
        if parts and fits:
            parts[-1] = longer
        else:
            parts.append([number])
    return parts


def _draw(table: SummaryTable, models: Sequence[int], repeat_names: bool) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for heading in LEADING_COLUMNS:
        drawn.add_column(Text(heading), overflow="fold", no_wrap=heading != "dataset")
    for number in models:
        drawn.add_column(Text(table.models[number]), justify="right", overflow="fold")
    above = None
    for row in table.rows:
        leading = list(row.leading)
        if row.dataset == above and not repeat_names:
            leading[0] = leading[1] = ""
        above = row.dataset
        shown = [row.cells[number].shown for number in models]
        drawn.add_row(
            *map(Text, leading),
            *(Text(text, style="bold red" if text == "FAILED" else "") for text in shown),
        )
    return drawn
