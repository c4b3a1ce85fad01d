"""A worker inside an actor of Ray, which keeps its model from one task to the next.

Runs on the machine that Ray has chosen. Nothing here imports Ray: the runner makes an actor of the
class.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Mapping

from opencompass_ext.logs import log_to_stderr
from opencompass_ext.tasks.worker import Worker

# Longest time that a call for news waits: a call whose caller is gone must not stay for ever.
_SECONDS_OF_WAITING = 10.0
# run, read_events, one read_events whose caller has gone, and assign or dismiss.
CONCURRENT_CALLS = 4


class WorkerActor:
    """Does assignments one after another in ``run``; all other methods are called beside it.

    Args:
        cwd: Working folder of the runner: paths in configs are relative to it.
        defaults: Environment of the runner, for variables that this machine does not set.
        environment: Variables of this worker alone.
    """

    def __init__(
        self, cwd: str, defaults: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        try:
            os.chdir(cwd)
        except OSError as error:
            raise RuntimeError(
                f"{cwd}: {error.strerror} on {os.uname().nodename}: a cluster of several machines "
                "needs the working folder and work_dir at the same path on all of them"
            ) from None
        # Nothing so far has loaded torch, which reads some of these once.
        for name, value in defaults.items():
            os.environ.setdefault(name, value)
        os.environ.update(environment)
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._news = _News()

    def run(self) -> int:
        """Do all assignments and return what would be the exit code of a process."""
        log_to_stderr()
        try:
            return Worker(iter(self._lines.get, None), self._news.put).run()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            self._news.close()

    def assign(self, line: bytes) -> None:
        """Take the next assignment."""
        self._lines.put(line)

    def dismiss(self) -> None:
        """Take note that there are no more."""
        self._lines.put(None)

    def read_events(self, position: int) -> bytes | None:
        """Wait for events; see ``_News.after``."""
        return self._news.after(position, _SECONDS_OF_WAITING)


class _News:
    """Bytes that are kept until the reader has them for sure: a reply of Ray may get lost."""

    def __init__(self) -> None:
        self._start = 0
        self._bytes = b""
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, data: bytes) -> None:
        with self._changed:
            self._bytes += data
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def after(self, position: int, seconds: float) -> bytes | None:
        """Return what came after the first ``position`` bytes, which are dropped.

        Waits for some seconds at most; then the answer is empty. It is None when there will be no
        more.
        """
        with self._changed:
            drop = max(0, position - self._start)
            self._bytes = self._bytes[drop:]
            self._start += drop
            self._changed.wait_for(lambda: self._bytes or self._is_closed, seconds)
            return None if self._is_closed and not self._bytes else self._bytes
