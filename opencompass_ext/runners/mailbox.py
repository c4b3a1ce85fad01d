"""A folder through which a runner and a worker on another machine talk: they share nothing else.

Each file has one writer, who appends whole lines, and one reader, who opens the file anew for every
look: that is what makes a network file system show what has been written elsewhere. Both files are
there before the reader looks for the first time, since such a system may remember for a minute that
a file was missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from opencompass_ext.writing import writing

# What the runner writes beside assignments.
END = b"end"
STILL_HERE = b""

SECONDS_BETWEEN_LOOKS = 0.25


class Mailbox:
    """The two files of one worker.

    Args:
        folder: Where they are.

    Attributes:
        assignments: Written by the runner: assignments, ``END``, and now and then ``STILL_HERE``.
        events: Written by the worker.
    """

    def __init__(self, folder: Path) -> None:
        self.assignments = folder / "assignments"
        self.events = folder / "events"

    def create(self) -> None:
        """Make the folder and two empty files, for this user's eyes only: models may hold keys.

        Raises:
            OutputError: They cannot be written.
        """
        folder = self.events.parent
        with writing(folder):
            folder.mkdir(mode=0o700, parents=True)
            for path in (self.assignments, self.events):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


class Writer:
    """Appends to a file in such a way that every line is on its way to other machines at once.

    Args:
        path: A file that exists.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_SYNC)

    def write(self, lines: bytes) -> None:
        """Append whole lines."""
        os.write(self._descriptor, lines)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class Reader:
    """Reads what has been appended to a file since the last look.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read_lines(self) -> list[bytes]:
        """Return the new lines that are complete, without their ends.

        Raises:
            OSError: The file cannot be read now.
        """
        with open(self._path, "rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        return whole.split(b"\n")[:-1]


def follow_assignments(path: Path, patience: float) -> Iterator[bytes]:
    """Yield assignments as they come, until there are no more.

    That is when the runner says so, when it has tidied up the file, and when it has been silent for
    so long that it must be gone.

    Args:
        path: The file that the runner writes to.
        patience: How many seconds of silence mean that it is gone.
    """
    reader = Reader(path)
    heard_at = time.monotonic()
    while time.monotonic() - heard_at < patience:
        try:
            lines = reader.read_lines()
        except FileNotFoundError:
            return
        except OSError:  # a file server that does not answer is silence, too
            lines = []
        for line in lines:
            heard_at = time.monotonic()
            if line == END:
                return
            if line != STILL_HERE:
                yield line
        time.sleep(SECONDS_BETWEEN_LOOKS)
