"""What a person sees while tasks run: a live display on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichDisplay

from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.tasks.base import ReportProgress

logger = logging.getLogger(__name__)


class Meter:
    """How fast the rows of one pair are being done.

    Rows that an earlier run had finished are not counted as speed.

    Args:
        now: Seconds on some clock.

    Example:
        >>> meter = Meter(now=0.0)
        >>> meter.update(rows_done=40, rows_total=100, tokens_done=0, now=2.0)
        >>> meter.update(rows_done=60, rows_total=100, tokens_done=1000, now=12.0)
        >>> meter.rows, meter.speed, meter.time_left
        ('60/100 rows', '100 tokens/s', '0:20 left')
    """

    def __init__(self, now: float) -> None:
        self._begun_at = now
        self._updated_at = now
        self._rows_before: int | None = None
        self._rows_done = 0
        self._rows_total = 0
        self._tokens_done = 0

    def update(self, rows_done: int, rows_total: int, tokens_done: int, now: float) -> None:
        """Take in what is done by now."""
        if self._rows_before is None:
            # Whether the first report comes before or after the first batch shows in its tokens.
            self._rows_before = rows_done if tokens_done == 0 else 0
            if tokens_done == 0:
                self._begun_at = now
        self._rows_done, self._rows_total, self._tokens_done = rows_done, rows_total, tokens_done
        self._updated_at = now

    @property
    def fraction(self) -> float:
        """Share of the rows that is done, 0 to 1."""
        return self._rows_done / self._rows_total if self._rows_total else 0.0

    @property
    def fraction_before(self) -> float:
        """Share of the rows that an earlier run had done."""
        return (self._rows_before or 0) / self._rows_total if self._rows_total else 0.0

    @property
    def rows(self) -> str:
        """Rows done and in all."""
        return f"{self._rows_done}/{self._rows_total} rows"

    @property
    def speed(self) -> str:
        """Tokens per second, or nothing while unknown."""
        seconds = self._updated_at - self._begun_at
        return (
            f"{self._tokens_done / seconds:.0f} tokens/s" if seconds and self._tokens_done else ""
        )

    @property
    def time_left(self) -> str:
        """Time that the other rows will take at this speed, or nothing while unknown."""
        newly_done = self._rows_done - (self._rows_before or 0)
        if newly_done <= 0:
            return ""
        seconds = self._updated_at - self._begun_at
        return f"{clock((self._rows_total - self._rows_done) * seconds / newly_done)} left"


def clock(seconds: float) -> str:
    """Return a duration for people.

    Example:
        >>> clock(59.6), clock(3700)
        ('1:00', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress(AbstractContextManager["Progress"]):
    """Told by a runner what happens; this base counts and keeps a meter per running pair.

    Args:
        stage: Name of the stage, for people.
        total: How many pairs of model and dataset there are.
    """

    def __init__(self, stage: str, total: int) -> None:
        self.stage = stage
        self.total = total
        self.ended: Counter[str] = Counter()
        self.meters: dict[str, Meter] = {}
        self._started_at = time.monotonic()
        self._done_before = 0.0

    def started(self, pair: TaskSpec) -> None:
        """A worker has begun with a pair."""
        self.meters[pair.name] = Meter(time.monotonic())

    def advanced(self, pair: TaskSpec, rows_done: int, rows_total: int, tokens_done: int) -> None:
        """More rows of a pair are safe on disk."""
        self.meters[pair.name].update(rows_done, rows_total, tokens_done, time.monotonic())

    def closed(self, outcome: TaskOutcome, how: str) -> None:
        """A pair has ended; ``how`` is ``"done"``, ``"reused"``, ``"failed"``, ..."""
        self.ended[how] += 1
        meter = self.meters.pop(outcome.task.name, None)
        if how == "reused":
            self._done_before += 1.0
        elif meter is not None:
            self._done_before += meter.fraction_before

    def reporter(self, pair: TaskSpec) -> ReportProgress:
        """Return a function for a task that runs in this process."""

        def report(rows_done: int, rows_total: int, tokens_done: int) -> None:
            self.advanced(pair, rows_done, rows_total, tokens_done)

        return report

    @property
    def done(self) -> float:
        """Pairs done, those at work counted by the share of their rows."""
        return self.ended.total() + sum(meter.fraction for meter in self.meters.values())

    @property
    def time_left(self) -> str:
        """Time that the other pairs will take at the speed so far, or nothing while unknown."""
        before = self._done_before + sum(m.fraction_before for m in self.meters.values())
        newly_done, left = self.done - before, self.total - self.done
        if newly_done <= 0 or left <= 0:
            return ""
        return f"{clock((time.monotonic() - self._started_at) * left / newly_done)} left"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Log how the pairs have ended, in one line."""
        ways = ", ".join(f"{count} {how}" for how, count in self.ended.items())
        seconds = time.monotonic() - self._started_at
        logger.info("%s: %s in %s", self.stage, ways or "nothing to do", clock(seconds))


class PlainProgress(Progress):
    """A log line when a pair begins or ends, and every few seconds in between.

    Args:
        stage: See ``Progress``.
        total: See ``Progress``.
        seconds_between_lines: At least this long between two lines about one pair.
    """

    def __init__(self, stage: str, total: int, seconds_between_lines: float = 10.0) -> None:
        super().__init__(stage, total)
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

    def closed(self, outcome: TaskOutcome, how: str) -> None:
        """Log the end, and how much of the stage is done."""
        super().closed(outcome, how)
        level = logging.ERROR if outcome.status == "failed" else logging.INFO
        parts = (f"{self.ended.total()}/{self.total} tasks", self.time_left)
        logger.log(
            level,
            "%s %s%s (%s)",
            outcome.task.name,
            how,
            f" after {outcome.seconds:.1f} s: {outcome.error}" if outcome.error else "",
            ", ".join(filter(None, parts)),
        )


class LiveProgress(Progress):
    """A bar for the stage and one for each running pair.

    Args:
        stage: See ``Progress``.
        total: See ``Progress``.
        console: The terminal.
    """

    def __init__(self, stage: str, total: int, console: Console) -> None:
        super().__init__(stage, total)
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
        label = f"  {pair.model['abbr']} / {pair.datasets[0]['abbr']}"
        self._bars[pair.name] = self._display.add_task(label, total=1.0, text="starting")

    def advanced(self, pair: TaskSpec, rows_done: int, rows_total: int, tokens_done: int) -> None:
        """Move the bars."""
        super().advanced(pair, rows_done, rows_total, tokens_done)
        meter = self.meters[pair.name]
        text = "  ".join(filter(None, (meter.rows, meter.speed, meter.time_left)))
        self._display.update(self._bars[pair.name], completed=meter.fraction, text=text)
        self._show_stage()

    def closed(self, outcome: TaskOutcome, how: str) -> None:
        """Take the bar of the pair away; a failure leaves a line."""
        super().closed(outcome, how)
        bar = self._bars.pop(outcome.task.name, None)
        if bar is not None:
            self._display.remove_task(bar)
        if outcome.status == "failed":
            logger.error("%s failed: %s", outcome.task.name, outcome.error)
        self._show_stage()

    def _show_stage(self) -> None:
        text = "  ".join(filter(None, (f"{self.ended.total()}/{self.total} tasks", self.time_left)))
        self._display.update(self._stage_bar, completed=self.done, text=text)

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
    stage: str, pairs: Sequence[TaskSpec], console: Console, *, is_live: bool
) -> Progress:
    """Return the display for a stage: live if the console is a terminal that nothing else uses."""
    if is_live and console.is_terminal:
        return LiveProgress(stage, len(pairs), console)
    return PlainProgress(stage, len(pairs))
