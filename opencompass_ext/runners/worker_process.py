"""A worker seen from the runner: started, given tasks, listened to, ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from opencompass_ext.python_process import module_command, module_environment
from opencompass_ext.tasks.protocol import Assignment, Event, event_from_line
from opencompass_ext.writing import writing

WORKER_MODULE = "opencompass_ext.tasks.worker"
_READ_BYTES = 1 << 16


class WorkerProcess:
    """One worker process.

    It is the leader of a session of its own, so that Ctrl-C reaches the runner alone, which then
    decides; and so that whatever the worker started can be killed with it.

    Args:
        environment: Environment of the process.
        log: File that the output goes to until the first task sends it to its own log.

    Attributes:
        events: File descriptor to wait on: readable when there are events, or the worker has ended.
    """

    def __init__(self, environment: Mapping[str, str], log: str) -> None:
        self._unread = b""
        self.events, writing_end = os.pipe()
        os.set_blocking(self.events, False)
        command = module_command(WORKER_MODULE, "--events-fd", str(writing_end))
        try:
            with writing(Path(log)):
                output = open_log(log)
            with output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=module_environment(environment),
                    pass_fds=[writing_end],
                    start_new_session=True,
                )
        except BaseException:
            os.close(self.events)
            raise
        finally:
            os.close(writing_end)

    def assign(self, assignment: Assignment) -> None:
        """Give the worker its next task. That it has just died is for ``has_ended`` to say."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(assignment.to_line())
            self._process.stdin.flush()

    def dismiss(self) -> None:
        """Let the worker end: at once when idle, else when the rows in hand are safe on disk."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def kill(self) -> None:
        """End the worker, and all that it started, now."""
        # Once it has been waited for, its number may belong to somebody else.
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def read_events(self) -> list[Event]:
        """Return the events that have come in since the last call."""
        with suppress(BlockingIOError):
            while chunk := os.read(self.events, _READ_BYTES):
                self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        return [event_from_line(line) for line in lines]

    def has_ended(self) -> bool:
        """Whether the process is gone. Its last events may still be unread.

        What it has left behind goes too: it would keep its GPU memory from the next worker.
        """
        if self._process.returncode is None and _has_died(self._process):
            self.kill()
            self._process.wait()
        return self._process.returncode is not None

    def close(self) -> None:
        """Free what is left of a worker that has ended."""
        self.dismiss()
        self._process.wait()
        os.close(self.events)

    def last_words(self, log: str) -> str:
        """Return how a process that has ended came to its end, as one line."""
        code = self._process.returncode
        if code >= 0:
            return f"the worker ended with exit code {code}: {last_line(log)}"
        name = signal.Signals(-code).name
        hint = " (often the system running out of memory)" if -code == signal.SIGKILL else ""
        return f"the worker was killed by {name}{hint}"


def _has_died(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process is dead. It is not waited for, so that its number stays its own."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13: what the worker has left stays
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def open_log(log: str) -> BinaryIO:
    """Open a log to be added to."""
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    return open(log, "ab")


def last_line(log: str) -> str:
    """Return the last line of a log that says something."""
    with open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _READ_BYTES))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")
