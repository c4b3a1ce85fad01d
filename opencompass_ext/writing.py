"""Write files so that no reader ever sees half of one, and JSON that any reader takes."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from opencompass_ext.errors import OutputError


def to_json(value: Any, indent: int | None = None) -> bytes:
    """Return ``value`` as strict JSON in UTF-8: no NaN, characters readable, NumPy numbers plain.

    Raises:
        ValueError: A number is NaN or infinite.
        TypeError: A value has no JSON form.

    Example:
        >>> to_json({"text": "数"}).decode()
        '{"text": "数"}'
    """
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, indent=indent, default=_plain_number
    )
    # Half of a surrogate pair has no UTF-8 form; the JSON escape of it is what this handler writes.
    return text.encode("utf-8", "backslashreplace")


def _plain_number(value: Any) -> Any:
    # NumPy scalars and 0-d arrays or tensors; nothing here imports the packages they come from.
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(f"a {type(value).__name__} has no JSON form: {value!r}")


@contextmanager
def writing(path: Path, kept: str = "finished work is kept") -> Iterator[None]:
    """Turn an ``OSError`` of the block into one ``OutputError`` that names ``path``."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"the disk is full: free some space and run again with -r ({kept})"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            remedy = "no permission to write there: choose another folder with -w"
        else:
            remedy = f"{error.strerror or error} ({kept}; go on with -r)"
        raise OutputError(f"cannot write {path}: {remedy}") from error


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` at the end of the block, whole or not at all.

    Raises:
        OutputError: It cannot be written; what stood at ``path`` is unchanged.
    """
    # The dot keeps it out of every glob for *.json.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in ``folder``: a new or renamed file is on disk only when its folder is."""
    # Systems without this flag cannot open folders.
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as strict JSON, indented by 4, in one step that cannot leave half a file.

    Raises:
        OutputError: The file cannot be written.
        ValueError: A number is NaN or infinite.
    """
    content = to_json(value, indent=4)
    with atomic_writer(path) as file:
        file.write(content)
