"""The summary as data: rows of cells, and how a number is written."""

from __future__ import annotations

import math
from dataclasses import dataclass

from opencompass_ext.summarizers.results import MISSING, PairResults

LEADING_COLUMNS = ("dataset", "version", "metric", "mode")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of the summary.

    Attributes:
        shown: For people: rounded, with its interval.
        plain: For programs: the number in full, or a word where there is none.
    """

    shown: str
    plain: str


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one data set or group, for all models."""

    dataset: str
    version: str
    metric: str
    mode: str
    cells: tuple[Cell, ...]

    @property
    def leading(self) -> tuple[str, str, str, str]:
        """The columns before those of the models."""
        return self.dataset, self.version, self.metric, self.mode


@dataclass(frozen=True, slots=True)
class SummaryTable:
    """The summary.

    Attributes:
        models: Heading of each model's column.
        rows: The rows.
        notes: What a reader must know beside the numbers, one line each.
        failures: The tasks that did not end well, one line each.
    """

    models: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


def make_cell(results: PairResults, metric: str) -> Cell:
    """Return the cell of a metric."""
    if metric not in results.metrics:
        lacking = len(results.missing_members)
        shown = f"{results.status} ({lacking} missing)" if lacking else results.status
        return Cell(shown, results.status)
    value = results.metrics[metric]
    scored, rows = results.coverage.get(metric, (0, 0))
    if value is None:
        reason = results.reasons.get(metric, "no reason given")
        text = f"null ({scored}/{rows}: {reason})" if rows else f"null ({reason})"
        return Cell(text, text)
    shown = format_number(value)
    if metric in results.intervals:
        # As many decimals as the value has, so that the three can be compared.
        decimals = len(shown.partition(".")[2]) if "e" not in shown else None
        ends = [
            format_number(end) if decimals is None else f"{end:.{decimals}f}"
            for end in results.intervals[metric]
        ]
        shown += f" [{', '.join(ends)}]"
    if scored < rows:
        # A mean over fewer rows than another system's is no mean over the same.
        shown += f" ({scored}/{rows})"
    return Cell(shown, repr(value))


def empty_cell(text: str = MISSING) -> Cell:
    """Return a cell without a number."""
    return Cell(text, text)


def format_number(value: float, digits: int = 5) -> str:
    """Return a number with ``digits`` significant digits; whole parts and integers stay whole.

    Two decimals would print 0.5912 and 0.5879 alike.

    Example:
        >>> [format_number(x) for x in (0.59123456, 2.5, 123456.78, 0.000012345, 0.0, 7)]
        ['0.59123', '2.5000', '123457', '1.2345e-05', '0.0000', '7']
    """
    if isinstance(value, int):
        return str(value)
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    if not -4 <= magnitude < 15:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(digits - 1 - magnitude, 0)}f}"
