"""The lock that the one process writing a predictions file holds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from opencompass_ext.errors import PredictionsError
from opencompass_ext.outputs import (
    journal_path,
    lock_path,
    parts_on_disk,
    provenance_path,
    rows_folder,
    writing,
)

logger = logging.getLogger(__name__)

# A worker whose run was killed finishes the batch in hand, and ends 30 seconds later at most.
LOCK_WAIT_SECONDS = 35.0


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a predictions file within the block.

    Raises:
        PredictionsError: Another process keeps holding it.
    """
    lock = acquire(path)
    try:
        yield
    finally:
        release(lock, path)


def acquire(predictions: Path) -> FileLock:
    """Take the lock of a predictions file, after waiting for a while if need be.

    Raises:
        PredictionsError: Another process keeps holding it.
    """
    path = lock_path(predictions)
    lock = FileLock(path)
    with writing(path):
        predictions.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
            return lock
        except Timeout:
            logger.warning("waiting for another process that is writing %s", predictions)
        try:
            lock.acquire(timeout=LOCK_WAIT_SECONDS)
            return lock
        except Timeout:
            raise PredictionsError(
                f"another process is writing {predictions} (it holds {path}): wait for it to end, "
                "or start a new run without -r"
            ) from None


def release(lock: FileLock, predictions: Path) -> None:
    """Give the lock of a predictions file back."""
    # Removed while still held: whoever opens the path from now on makes a new lock.
    lock_path(predictions).unlink(missing_ok=True)
    lock.release()


def remove_parts(predictions: Path) -> None:
    """Delete the parts of a predictions file that is whole now.

    A part that another process is just writing stays: that process goes on with the same run, and
    removes it when it is whole itself.

    Raises:
        OutputError: They cannot be deleted.
    """
    for part in parts_on_disk(predictions):
        lock = FileLock(lock_path(part))
        try:
            lock.acquire(timeout=0)
        except (Timeout, FileNotFoundError):
            continue
        try:
            for path in (journal_path(part), part, provenance_path(part)):
                with writing(path):
                    path.unlink(missing_ok=True)
        finally:
            release(lock, part)
    with suppress(OSError):  # not empty, or not there
        rows_folder(predictions).rmdir()
