"""What a person sees while tasks run: a live display on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichDisplay

from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.running.progress import Progress
from opencompass_ext.running.status import StatusFile

logger = logging.getLogger(__name__)


class PlainProgress(Progress):
    """A log line when a pair begins or ends, and every few seconds in between.

    Args:
        stage: See ``Progress``.
        total: See ``Progress``.
        status: See ``Progress``.
        seconds_between_lines: At least this long between two lines about one pair.
    """

    def __init__(
        self,
        stage: str,
        total: int,
        status: StatusFile | None = None,
        seconds_between_lines: float = 10.0,
    ) -> None:
        super().__init__(stage, total, status)
        self._seconds_between_lines = seconds_between_lines
        self._last_line: dict[str, float] = {}

    def started(self, pair: TaskSpec) -> None:
        """Log the start."""
        super().started(pair)
        self._last_line[pair.name] = time.monotonic()
        logger.info("%s started", pair.name)

    def advanced(self, pair: TaskSpec, rows_done: int, rows_total: int, tokens_done: int) -> None:
        """Log rows, speed and time left, now and then."""
        super().advanced(pair, rows_done, rows_total, tokens_done)
        if time.monotonic() - self._last_line[pair.name] >= self._seconds_between_lines:
            self._last_line[pair.name] = time.monotonic()
            meter = self.meters[pair.name]
            parts = (meter.rows, meter.speed, meter.time_left)
            logger.info("%s: %s", pair.name, ", ".join(filter(None, parts)))

    def closed(self, outcome: TaskOutcome, how: str, *, is_told: bool = False) -> None:
        """Log the end, and how much of the stage is done."""
        super().closed(outcome, how, is_told=is_told)
        if is_told:
            return
        level = logging.ERROR if outcome.status == "failed" else logging.INFO
        logger.log(
            level,
            "%s %s%s (%s)",
            outcome.task.name,
            how,
            f" after {outcome.seconds:.1f} s: {outcome.error}" if outcome.error else "",
            self.summary,
        )


class LiveProgress(Progress):
    """A bar for the stage and one for each running pair.

    Args:
        stage: See ``Progress``.
        total: See ``Progress``.
        console: The terminal.
        status: See ``Progress``.
    """

    def __init__(
        self, stage: str, total: int, console: Console, status: StatusFile | None = None
    ) -> None:
        super().__init__(stage, total, status)
        self._display = RichDisplay(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[text]}", markup=False),
            console=console,
        )
        self._stage_bar = self._display.add_task(stage, total=total, text=f"0/{total} tasks")
        self._bars: dict[str, TaskID] = {}

    def started(self, pair: TaskSpec) -> None:
        """Show a bar for the pair."""
        super().started(pair)
        ((dataset, rows),) = pair.pieces
        label = f"  {pair.model['abbr']} / {dataset['abbr']}{rows or ''}"
        self._bars[pair.name] = self._display.add_task(label, total=1.0, text="starting")

    def advanced(self, pair: TaskSpec, rows_done: int, rows_total: int, tokens_done: int) -> None:
        """Move the bars."""
        super().advanced(pair, rows_done, rows_total, tokens_done)
        meter = self.meters[pair.name]
        text = "  ".join(filter(None, (meter.rows, meter.speed, meter.time_left)))
        self._display.update(self._bars[pair.name], completed=meter.fraction, text=text)
        self._show_stage()

    def closed(self, outcome: TaskOutcome, how: str, *, is_told: bool = False) -> None:
        """Take the bar of the pair away; a failure leaves a line."""
        super().closed(outcome, how, is_told=is_told)
        bar = self._bars.pop(outcome.task.name, None)
        if bar is not None:
            self._display.remove_task(bar)
        if outcome.status == "failed" and not is_told:
            logger.error("%s failed: %s", outcome.task.name, outcome.error)
        self._show_stage()

    def _show_stage(self) -> None:
        self._display.update(self._stage_bar, completed=self.done, text=self.summary)

    def __enter__(self) -> LiveProgress:
        self._display.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._display.stop()
        super().__exit__(kind, error, trace)


def stage_progress(
    stage: str,
    pairs: Sequence[TaskSpec],
    console: Console,
    *,
    is_live: bool,
    status: StatusFile | None = None,
) -> Progress:
    """Return the display for a stage: live if the console is a terminal that nothing else uses."""
    if is_live and console.is_terminal:
        return LiveProgress(stage, len(pairs), console, status)
    return PlainProgress(stage, len(pairs), status)
