"""``status.json`` in the run folder: how far a run has come, for programs.

::

    {"state": "running", "stage": "infer", "pid": 4711, "host": "box",
     "started_at": "2026-01-31T12:00:00+00:00", "updated_at": "...",
     "tasks_total": 12, "tasks_ended": {"done": 3, "reused": 1, "failed": 1}, "seconds_left": 80.5,
     "running": [{"task": "OpenICLInfer[m/d[0:100]]", "model": "m", "dataset": "d",
                  "rows": [0, 100], "rows_done": 40, "rows_total": 100,
                  "tokens_per_second": 812.0, "seconds_left": 12.5}],
     "failures": [{"task": "...", "error": "...", "log": "..."}]}

``state`` ends as ``"done"``, ``"failed"`` or ``"interrupted"``. While it is ``"running"`` the file
is written anew every second or so; one whose ``updated_at`` is old is of a run that was killed.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opencompass_ext.records import TaskOutcome
from opencompass_ext.writing import to_json

logger = logging.getLogger(__name__)


class StatusFile:
    """Writes the status of one run.

    A reader never sees half a file. That it cannot be written is no reason to end a run: it is
    logged once.

    Args:
        path: The file.
        seconds_between_writes: At least this long between two writes while nothing begins or ends.
    """

    def __init__(self, path: Path, seconds_between_writes: float = 1.0) -> None:
        self._path = path
        self._seconds_between_writes = seconds_between_writes
        self._written_at = -float("inf")
        self._is_unwritable = False
        self._stage: dict[str, Any] = {"stage": None}
        self._failures: list[dict[str, Any]] = []
        self._fixed = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started_at": _now(),
        }

    def add_failure(self, outcome: TaskOutcome) -> None:
        """Take in a task that has failed."""
        failure = {"task": outcome.task.name, "error": outcome.error, "log": outcome.log}
        self._failures.append(failure)

    def follow(self, stage: Callable[[], dict[str, Any]]) -> None:
        """Write what ``stage`` returns, unless the last write is less than a moment ago."""
        if time.monotonic() - self._written_at >= self._seconds_between_writes:
            self._stage = stage()
            self._write("running")

    def keep(self, stage: dict[str, Any]) -> None:
        """Take in what a stage that has ended has to say."""
        self._stage = stage

    def end(self, state: str) -> None:
        """Write that the run has ended: it is ``"done"``, ``"failed"`` or ``"interrupted"``."""
        self._write(state)

    def _write(self, state: str) -> None:
        content = {
            "state": state,
            **self._fixed,
            "updated_at": _now(),
            **self._stage,
            "failures": self._failures,
        }
        # Renamed and not synced: after a power cut nobody asks how far a run has come.
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        self._written_at = time.monotonic()
        text = to_json(content, indent=1)
        try:
            temporary.write_bytes(text)
            os.replace(temporary, self._path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            if state != "running":
                self._overwrite(text)
            if not self._is_unwritable:
                logger.warning("cannot write %s: %s", self._path, error.strerror or error)
            self._is_unwritable = True

    def _overwrite(self, text: bytes) -> None:
        """Say how the run has ended where there is no room for a second file."""
        with suppress(OSError):
            room = self._path.stat().st_size
            if len(text) > room:
                text = to_json({**json.loads(text), "running": [], "failures": []})
            if len(text) <= room:
                with open(self._path, "r+b") as file:
                    # Blanks may follow JSON, and a file that keeps its length needs no room.
                    file.write(text.ljust(room))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
