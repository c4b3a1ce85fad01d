"""The lock of a file that one process at a time may write."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

logger = logging.getLogger(__name__)

_TRY_SECONDS = 5.0


def acquire(path: Path, grows: Path, what: Path, *, idle_seconds: float) -> FileLock | None:
    """Take a lock; wait for the process that holds it as long as that one goes on.

    Args:
        path: The lock.
        grows: The file that the other process writes to.
        what: What the other process is writing, for the log.
        idle_seconds: How long ``grows`` may stay as it is before that process is taken for stuck.

    Returns:
        The lock, held; None if the other process is stuck.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
        return lock
    except Timeout:
        logger.warning("waiting for another process that is writing %s", what)
    before, idle_since = _state(grows), time.monotonic()
    while time.monotonic() - idle_since < idle_seconds:
        with suppress(Timeout):
            lock.acquire(timeout=min(idle_seconds, _TRY_SECONDS))
            return lock
        if _state(grows) != before:
            before, idle_since = _state(grows), time.monotonic()
    return None


def release(lock: FileLock, path: Path) -> None:
    """Give a lock back."""
    # Removed while still held: whoever opens the path from now on makes a new lock.
    path.unlink(missing_ok=True)
    lock.release()


def _state(path: Path) -> tuple[int, int] | None:
    """Return what changes whenever something is written."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_size, stat.st_mtime_ns
