"""What a person sees while tasks run: a live display on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichDisplay

from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.running.status import StatusFile
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
    def tokens_per_second(self) -> float | None:
        """How fast tokens are read, None while unknown."""
        seconds = self._updated_at - self._begun_at
        return self._tokens_done / seconds if seconds > 0 and self._tokens_done else None

    @property
    def seconds_left(self) -> float | None:
        """Time that the other rows will take at this speed, None while unknown."""
        newly_done = self._rows_done - (self._rows_before or 0)
        if newly_done <= 0:
            return None
        seconds = self._updated_at - self._begun_at
        return (self._rows_total - self._rows_done) * seconds / newly_done

    @property
    def speed(self) -> str:
        """Tokens per second, or nothing while unknown."""
        speed = self.tokens_per_second
        return "" if speed is None else f"{speed:.0f} tokens/s"

    @property
    def time_left(self) -> str:
        """Time left, or nothing while unknown."""
        return "" if self.seconds_left is None else f"{clock(self.seconds_left)} left"

    def as_json(self) -> dict[str, Any]:
        """Return the numbers for programs."""
        return {
            "rows_done": self._rows_done,
            "rows_total": self._rows_total,
            "tokens_per_second": self.tokens_per_second,
            "seconds_left": self.seconds_left,
        }


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
        status: File that tells programs the same; None for no file.
    """

    def __init__(self, stage: str, total: int, status: StatusFile | None = None) -> None:
        self.stage = stage
        self.total = total
        self._status = status
        self._running: dict[str, TaskSpec] = {}
        self.ended: Counter[str] = Counter()
        self.meters: dict[str, Meter] = {}
        self._started_at = time.monotonic()
        self._done_before = 0.0

    def started(self, pair: TaskSpec) -> None:
        """A worker has begun with a pair."""
        self.meters[pair.name] = Meter(time.monotonic())
        self._running[pair.name] = pair
        self.tick()

    def advanced(self, pair: TaskSpec, rows_done: int, rows_total: int, tokens_done: int) -> None:
        """More rows of a pair are safe on disk."""
        self.meters[pair.name].update(rows_done, rows_total, tokens_done, time.monotonic())
        self.tick()

    def closed(self, outcome: TaskOutcome, how: str, *, is_told: bool = False) -> None:
        """A pair has ended.

        Args:
            outcome: How, for the run.
            how: How, for people: ``"done"``, ``"reused"``, ``"failed"``, ...
            is_told: People have been told already, together with other pairs.
        """
        self.ended[how] += 1
        meter = self.meters.pop(outcome.task.name, None)
        self._running.pop(outcome.task.name, None)
        if how == "reused":
            self._done_before += 1.0
        elif meter is not None:
            self._done_before += meter.fraction_before
        if self._status is not None and outcome.status == "failed":
            self._status.add_failure(outcome)
        self.tick()

    def tick(self) -> None:
        """Let the status file follow; called at short intervals, also when nothing happens."""
        if self._status is not None:
            self._status.follow(self.as_json)

    def as_json(self) -> dict[str, Any]:
        """Return what the status file says of the stage."""
        return {
            "stage": self.stage,
            "tasks_total": self.total,
            "tasks_ended": dict(self.ended),
            "seconds_left": self.seconds_left,
            "running": [
                {**_names(pair), **self.meters[name].as_json()}
                for name, pair in self._running.items()
            ],
        }

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
    def seconds_left(self) -> float | None:
        """Time that the other pairs will take at the speed so far, None while unknown."""
        before = self._done_before + sum(m.fraction_before for m in self.meters.values())
        newly_done, left = self.done - before, self.total - self.done
        if newly_done <= 0 or left <= 0:
            return None
        return (time.monotonic() - self._started_at) * left / newly_done

    @property
    def time_left(self) -> str:
        """Time left, or nothing while unknown."""
        return "" if self.seconds_left is None else f"{clock(self.seconds_left)} left"

    @property
    def summary(self) -> str:
        """Tasks that have ended, failures among them, and time left."""
        speeds = [m.tokens_per_second for m in self.meters.values() if m.tokens_per_second]
        parts = (
            f"{self.ended.total()}/{self.total} tasks",
            f"{self.ended['failed']} failed" if self.ended["failed"] else "",
            f"{sum(speeds):.0f} tokens/s" if len(speeds) > 1 else "",
            self.time_left,
        )
        return ", ".join(filter(None, parts))

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


def _names(pair: TaskSpec) -> dict[str, Any]:
    ((dataset, rows),) = pair.pieces
    return {
        "task": pair.name,
        "model": pair.model["abbr"],
        "dataset": dataset["abbr"],
        "rows": None if rows is None else [rows.start, rows.stop],
    }


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
