"""The lock that the one process writing a predictions file holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from opencompass_ext import locking
from opencompass_ext.errors import PredictionsError
from opencompass_ext.outputs import (
    journal_path,
    lock_path,
    provenance_path,
    rows_folder,
)
from opencompass_ext.writing import writing

# A process that holds the lock and keeps nothing for so long is taken to be stuck. One batch of a
# large model takes a minute or two.
IDLE_SECONDS = 600.0


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
    """Take the lock of a predictions file; wait for another process as long as that goes on.

    Raises:
        PredictionsError: Another process keeps holding it and keeps no more rows.
    """
    path = lock_path(predictions)
    with writing(path):
        predictions.parent.mkdir(parents=True, exist_ok=True)
        lock = locking.acquire(
            path, journal_path(predictions), predictions, idle_seconds=IDLE_SECONDS
        )
    if lock is None:
        raise PredictionsError(
            f"another process is writing {predictions} (it holds {path}) and has kept nothing for "
            f"{IDLE_SECONDS:.0f} s: end it, or start a new run without -r"
        )
    return lock


def release(lock: FileLock, predictions: Path) -> None:
    """Give the lock of a predictions file back."""
    locking.release(lock, lock_path(predictions))


def remove_parts(predictions: Path) -> None:
    """Delete the parts of a predictions file that is whole now.

    A part that another process is just writing stays: that process goes on with the same run, and
    removes it when it is whole itself.

    Raises:
        OutputError: They cannot be deleted.
    """
    for part in _touched_parts(predictions):
        lock = FileLock(lock_path(part))
        try:
            lock.acquire(timeout=0)
        except (Timeout, FileNotFoundError):
            continue
        try:
            for path in (
                *(journal_path(part), part, provenance_path(part)),
                *part.parent.glob(f".{part.stem}.*.tmp"),
            ):
                with writing(path):
                    path.unlink(missing_ok=True)
        finally:
            release(lock, part)
    with suppress(OSError):  # not empty, or not there
        rows_folder(predictions).rmdir()


def _touched_parts(predictions: Path) -> list[Path]:
    """Return the parts of which anything is there: a kill leaves a lock or half a file alone."""
    folder = rows_folder(predictions)
    names = {
        entry.name.lstrip(".").partition(".")[0]
        for entry in (folder.iterdir() if folder.is_dir() else ())
    }
    return [folder / f"{name}.json" for name in sorted(names)]
