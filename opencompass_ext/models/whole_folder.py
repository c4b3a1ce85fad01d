"""Folders that exist only once they are whole."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PARTIAL = ".partial-"


@contextmanager
def whole_folder(final: Path) -> Iterator[Path]:
    """Yield a new folder that becomes ``final`` when the block ends, and vanishes when it raises.

    The rename is the last step and comes after the content has reached the disk, so neither a kill
    nor a power cut leaves a part under the name ``final``.

    Raises:
        OSError: The folder cannot be written, or ``final`` exists.
    """
    # Not tempfile.mkdtemp: its folders are closed to everyone else, and a cache may be shared.
    partial = final.with_name(f"{_PARTIAL}{final.name}-{secrets.token_hex(4)}")
    partial.mkdir()
    try:
        yield partial
        for path in partial.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        partial.rename(final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def remove_partial_folders(parent: Path) -> None:
    """Remove what killed processes left in ``parent``; only for who alone may write there."""
    for path in parent.glob(f"{_PARTIAL}*"):
        shutil.rmtree(path, ignore_errors=True)
