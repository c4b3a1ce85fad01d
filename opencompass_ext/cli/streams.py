"""Output whose reader may go away: ``run.py ... | head -1`` fails no run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


@contextmanager
def closed_pipes_ignored() -> Iterator[None]:
    """Let ``sys.stdout`` and ``sys.stderr`` fall silent once nobody reads them any more.

    A run that is printed into a pipe goes on to its end, and its exit code tells of its tasks
    only. Everything is flushed at the end of the block: Python's own flush at exit would fail.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_patient(stream) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before


def _patient(stream: TextIO | None) -> Any:
    # Python has no streams in a process without a console.
    return None if stream is None else _PatientStream(stream)


class _PatientStream:
    """A text stream that drops what is written once the other end of its pipe is closed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._silence()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._silence()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _silence(self) -> None:
        # What is still in the buffer has to go somewhere, or every later write would fail again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
