"""The journal of an unfinished predictions file: finished rows that survive a kill or a power cut.

One line per row, only ever appended, on disk before the next batch starts::

    {"i": 17, "key": "9f2c...", "row": {"ppl": 1.9, ...}}

``key`` is a hash of the row's content and of what scored it. A row is used again only if it is
still the key of row ``i``. A row whose fields come one after another is kept piece by piece: its
lines say ``"part"`` in place of ``"row"`` until one with the whole row follows.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opencompass_ext.writing import sync_folder, to_json, writing

logger = logging.getLogger(__name__)

Row = dict[str, Any]


class JournalRows(NamedTuple):
    """What a journal holds, by index of the row.

    Attributes:
        whole: Finished rows.
        parts: Of the other rows, the fields that are there.
    """

    whole: dict[int, Row]
    parts: dict[int, Row]


class _Entry(NamedTuple):
    i: int
    key: str
    row: Row
    is_whole: bool


class Journal:
    """Reads the rows of a journal that are still right, and takes more.

    Args:
        path: The journal; it need not exist. ``read`` it before the first ``append``.
        row_keys: One key per row, in order.
        first_row: Number of the first of these rows in the dataset. The lines have these numbers;
            everything here counts from 0.
    """

    def __init__(self, path: Path, row_keys: Sequence[str], first_row: int = 0) -> None:
        self.path = path
        self._first_row = first_row
        self._row_keys = row_keys
        self._descriptor: int | None = None
        self._end = 0  # bytes up to the end of the last whole line

    def read(self, *, is_own: bool = True) -> JournalRows:
        """Return the rows whose key still holds.

        Args:
            is_own: What has to be left out is logged. A journal that others write is read as it
                is just now, and rows that are none of these are no wonder.
        """
        rows = JournalRows({}, {})
        if not self.path.exists():
            return rows
        damaged: list[int] = []
        foreign = 0
        self._end = 0
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    if is_own:
                        logger.warning("%s:%d: torn last line dropped", self.path, number)
                    break
                self._end += len(line)
                entry = _parse(line)
                if entry is None:
                    damaged.append(number)
                    continue
                i = entry.i - self._first_row
                if not (0 <= i < len(self._row_keys) and self._row_keys[i] == entry.key):
                    foreign += 1
                elif entry.is_whole:
                    rows.whole[i] = entry.row
                    rows.parts.pop(i, None)
                elif i not in rows.whole:
                    rows.parts.setdefault(i, {}).update(entry.row)
        if is_own:
            self._tell_left_out(damaged, foreign)
        return rows

    def _tell_left_out(self, damaged: Sequence[int], foreign: int) -> None:
        if damaged:
            logger.warning(
                "%s: %d damaged lines dropped, the first is line %d; their rows are done again",
                self.path,
                len(damaged),
                damaged[0],
            )
        if foreign:
            logger.warning(
                "%s: %d rows belong to other data or another model and are not used",
                self.path,
                foreign,
            )

    def append(self, rows: Mapping[int, Row], parts: Mapping[int, Row] | None = None) -> None:
        """Put rows on disk: one write, flushed to the device before this returns.

        Whoever appends must hold the lock of the predictions file.

        Args:
            rows: Finished rows by index.
            parts: Further fields of rows that are not finished.

        Raises:
            OutputError: They cannot be written; the journal is as it was before.
            ValueError: An index is outside the dataset, or a row holds NaN or an infinite number.
        """
        lines = [self._line(i, "row", row) for i, row in rows.items()]
        lines += [self._line(i, "part", part) for i, part in (parts or {}).items()]
        content = b"".join(lines)
        with writing(self.path, "finished rows are kept"):
            descriptor = self._open()
            try:
                _write_all(descriptor, content)
                os.fsync(descriptor)
            except OSError:
                # Else the next line would be glued to the torn one, and both be lost.
                os.ftruncate(descriptor, self._end)
                raise
        self._end += len(content)

    def close(self) -> None:
        """Close the file; it stays on disk."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def remove(self) -> None:
        """Delete the file: its rows stand in the final one."""
        self.close()
        with writing(self.path):
            self.path.unlink(missing_ok=True)

    def _open(self) -> int:
        if self._descriptor is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.ftruncate(self._descriptor, self._end)  # a torn last line goes
            sync_folder(self.path.parent)
        return self._descriptor

    def _line(self, i: int, field: str, row: Row) -> bytes:
        if not 0 <= i < len(self._row_keys):
            raise ValueError(f"row {i} is outside the {len(self._row_keys)} rows of the dataset")
        try:
            return (
                to_json({"i": self._first_row + int(i), "key": self._row_keys[i], field: row})
                + b"\n"
            )
        except ValueError as error:
            raise ValueError(f"row {i}: {error}; write null and a reason instead") from error


def whole_rows(path: Path) -> set[int]:
    """Return the numbers of the rows that a journal holds whole, for whatever data and model.

    Args:
        path: The journal; it need not exist.
    """
    if not path.exists():
        return set()
    with open(path, "rb") as file:
        entries = [_parse(line) for line in file if line.endswith(b"\n")]
    return {entry.i for entry in entries if entry is not None and entry.is_whole}


def _parse(line: bytes) -> _Entry | None:
    try:
        entry = json.loads(line)
        is_whole = "row" in entry
        i, key, row = entry["i"], entry["key"], entry["row" if is_whole else "part"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_right = isinstance(i, int) and isinstance(key, str) and isinstance(row, dict)
    return _Entry(i, key, row, is_whole) if is_right else None


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
