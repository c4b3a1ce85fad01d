"""What is known of a stage while its tasks run."""

from __future__ import annotations

import logging
import time
from collections import Counter
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.running.meter import Meter, clock
from opencompass_ext.running.status import StatusFile
from opencompass_ext.tasks.base import ReportProgress

logger = logging.getLogger(__name__)


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
