"""The predictions file of one model on one dataset: resumed, completed, read back.

While a run is going on, finished rows stand in the journal ``<dataset>.journal``. When all are
there they become ``<dataset>.json`` in one step, with the row keys in ``<dataset>.provenance``
beside it. Where several tasks share the rows of a dataset, each has such files of its own in the
folder ``<dataset>.rows`` until ``merging`` makes one of them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock

from opencompass_ext.errors import PredictionsError
from opencompass_ext.outputs import journal_path, parts_on_disk, provenance_path, rows_path
from opencompass_ext.predictions.elsewhere import rows_elsewhere
from opencompass_ext.predictions.final_file import (
    DO_AGAIN,
    RowIdentities,
    data_key,
    final_chunks,
    identities_of,
    read_final,
    read_made_by,
    read_provenance,
    write_final,
)
from opencompass_ext.predictions.journal import Journal, Row
from opencompass_ext.predictions.lock import acquire, release, remove_parts
from opencompass_ext.records import RowRange

__all__ = ["PredictionsFile", "data_key", "load_predictions", "read_provenance"]

logger = logging.getLogger(__name__)


class PredictionsFile:
    """Rows of one predictions file: those that are finished, and a safe place for those to come.

    Making one only reads. The lock is taken on entering the context manager or by the first
    ``append``, whichever comes first, and held until ``finish`` or ``close``.

    Args:
        path: The file of the whole dataset, ``<dataset>.json``.
        row_keys: One key per row, in order: a row of an earlier run is used again while its key is
            the same, wherever that run kept it.
        rows: Which rows of the dataset these are; None for all. Everything here counts them from
            0; on disk they have their numbers in the dataset.
        data_keys: One key per row, of the dataset's row as a whole; see ``final_file.data_key``.

    Attributes:
        own_path: The file that is written.
        first_row: Number of row 0 in the dataset.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = Path(folder.name, "d.json")
        >>> with PredictionsFile(path, ["k0", "k1"]) as predictions:
        ...     predictions.append({1: {"ppl": 2.0}})
        >>> with PredictionsFile(path, ["k0", "k1"]) as predictions:
        ...     print(predictions.rows)
        ...     predictions.append({0: {"ppl": 1.0}})
        ...     predictions.finish({"seed": 0})
        {1: {'ppl': 2.0}}
        >>> PredictionsFile(path, ["k0", "k1"]).is_complete
        True
        >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | Path,
        row_keys: Sequence[str],
        rows: RowRange | None = None,
        data_keys: Sequence[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self.row_keys = list(row_keys)
        self.row_range = rows
        self.first_row = rows.start if rows else 0
        self.own_path = rows_path(self.path, rows.start, rows.stop) if rows else self.path
        self._identities = RowIdentities(self.row_keys, None if data_keys is None else [*data_keys])
        self._lock: FileLock | None = None
        # A complete file is parsed only when somebody asks for its rows.
        self._rows: dict[int, Row] | None = None
        self._parts: dict[int, Row] = {}
        self._load()

    @property
    def rows(self) -> dict[int, Row]:
        """Finished rows by index; not to be changed."""
        if self._rows is None:
            if self._is_in_whole:
                stop = self.first_row + len(self.row_keys)
                rows = read_final(self.path)[self.first_row : stop]
            else:
                rows = read_final(self.own_path, self.first_row)
            self._rows = dict(enumerate(rows))
        return self._rows

    @property
    def parts(self) -> Mapping[int, Row]:
        """Of rows that are not finished, the fields that are there, by index."""
        return self._parts

    @property
    def is_complete(self) -> bool:
        """Whether a final file holds exactly the rows that the keys ask for."""
        return self._is_complete

    def append(self, rows: Mapping[int, Row], parts: Mapping[int, Row] | None = None) -> None:
        """Put rows on disk; when this returns they survive a kill and a power cut.

        Args:
            rows: Finished rows by index.
            parts: Further fields of rows that are not finished, each with the fields that are new.

        Raises:
            OutputError: They cannot be written; the rows of earlier calls are kept.
            PredictionsError: Another process is writing this file.
            ValueError: An index is outside the dataset, or a row holds NaN or an infinite number.
        """
        self._acquire()
        self._journal.append(rows, parts)
        self.rows.update(rows)
        for i in rows:
            self._parts.pop(i, None)
        for i, part in (parts or {}).items():
            self._parts.setdefault(i, {}).update(part)

    def finish(self, provenance: Mapping[str, Any]) -> None:
        """Write the final file in row order and its provenance, and remove the journal.

        Args:
            provenance: What made the rows: model, versions, seed... Plain JSON values.

        Raises:
            OutputError: It cannot be written; the journal stays.
            ValueError: Some row is not there yet.
        """
        self._acquire()
        count = len(self.row_keys)
        missing = [i for i in range(count) if i not in self.rows]
        if missing:
            raise ValueError(f"{len(missing)} of {count} rows are missing: {missing[:5]}...")
        write_final(
            self.own_path,
            final_chunks(self.rows, count, self.first_row),
            self._identities,
            provenance,
            self.row_range,
        )
        self._is_complete = True
        self._journal.remove()
        if self.row_range is None:
            remove_parts(self.path)
        self.close()

    def made_by(self) -> dict[str, Any] | None:
        """Return what made the rows, if a final file with exactly these rows tells; else None.

        Such a file may still be incomplete: where columns of the dataset changed that no model
        reads.
        """
        found = identities_of(self.own_path)
        if found is None or found.row_keys != self.row_keys:
            return None
        return read_made_by(self.own_path)

    def close(self) -> None:
        """Give the lock back. Rows that are not part of a final file stay in the journal."""
        self._journal.close()
        if self._lock is not None:
            release(self._lock, self.own_path)
            self._lock = None

    def __enter__(self) -> PredictionsFile:
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self) -> None:
        """Take the lock if rows are to be written, and end what an earlier run has not."""
        has_parts = self.row_range is None and bool(parts_on_disk(self.path))
        if not self._is_complete or self._journal.path.exists() or has_parts:
            self._acquire()
        if self._is_complete:
            # An earlier run may have ended between its last steps.
            self._journal.remove()
            if has_parts:
                remove_parts(self.path)
            self.close()

    def _load(self) -> None:
        self._seen = self._state_on_disk()
        self._journal = Journal(journal_path(self.own_path), self.row_keys, self.first_row)
        self._only_in_final: dict[int, Row] = {}
        self._rows = None
        self._parts = {}
        own = self._own_identities()
        self._is_in_whole = own is None and self._whole_has_them()
        self._is_complete = self._is_in_whole or (own is not None and self._fits(own))
        if self._is_complete:
            return
        final = self._final_rows_still_right(own.row_keys) if own is not None else {}
        journal = self._journal.read()
        self._only_in_final = {i: row for i, row in final.items() if i not in journal.whole}
        self._rows = {**final, **journal.whole}
        self._parts = {i: part for i, part in journal.parts.items() if i not in self._rows}
        if len(self._rows) < len(self.row_keys):
            self._take_from_elsewhere()

    def _fits(self, found: RowIdentities) -> bool:
        data_keys = self._identities.data_keys
        return found.row_keys == self.row_keys and data_keys in (None, found.data_keys)

    def _whole_has_them(self) -> bool:
        """Whether these are rows of a whole that an earlier run has finished."""
        if self.row_range is None:
            return False
        found = identities_of(self.path)
        return found is not None and self._fits(found.of(self.row_range.start, self.row_range.stop))

    def _take_from_elsewhere(self) -> None:
        """Use what other divisions of the dataset into tasks have left of these rows."""
        found = rows_elsewhere(self.path, self.own_path, self.row_keys, self.first_row)
        taken = found.whole.keys() - self.rows.keys()
        self.rows.update({i: found.whole[i] for i in taken})
        for i, part in found.parts.items():
            if i not in self.rows:
                self._parts.setdefault(i, {}).update(part)
        self._parts = {i: part for i, part in self._parts.items() if i not in self.rows}
        if taken:
            logger.info("%s: %d rows of an earlier division are used", self.own_path, len(taken))

    def _own_identities(self) -> RowIdentities | None:
        """Return those of the file's rows if this program wrote it, as it stands."""
        found = identities_of(self.own_path)
        if found is None and self.own_path.exists():
            logger.warning(
                "%s: nothing tells which data and model its rows came from (no %s that fits it); "
                "they are done again",
                self.own_path,
                provenance_path(self.own_path).name,
            )
        return found

    def _final_rows_still_right(self, old_keys: list[str]) -> dict[int, Row]:
        final = read_final(self.own_path, self.first_row)
        pairs = enumerate(zip(old_keys, self.row_keys, strict=False))
        rows = {i: final[i] for i, (old, new) in pairs if old == new}
        logger.warning(
            "%s: data or model have changed: %d of its %d rows serve for the %d rows asked for",
            self.own_path,
            len(rows),
            len(final),
            len(self.row_keys),
        )
        return rows

    def _acquire(self) -> None:
        if self._lock is not None:
            return
        self._lock = acquire(self.own_path)
        if self._state_on_disk() != self._seen:
            self._load()
        if self._only_in_final:
            # Rows that stand only in the old final file would be lost if the machine died
            # between the new final file and its provenance.
            self._journal.append(self._only_in_final)
            self._only_in_final = {}

    def _state_on_disk(self) -> list[tuple[int, int, int] | None]:
        states: list[tuple[int, int, int] | None] = []
        own = self.own_path
        # The whole as well: a part is gone once others have joined it.
        for path in (own, provenance_path(own), journal_path(own), self.path):
            try:
                stat = path.stat()
                states.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
            except FileNotFoundError:
                states.append(None)
        return states


def load_predictions(path: str | Path, advice: str = DO_AGAIN) -> list[Row]:
    """Return the rows of a finished predictions file, in order.

    A file without provenance, such as one that OpenCompass made, is taken as it is.

    Args:
        path: The file.
        advice: What an error tells the user to do about a damaged file.

    Raises:
        PredictionsError: The file is missing or damaged, or inference has not finished.
    """
    path = Path(path)
    if journal_path(path).exists() or parts_on_disk(path):
        raise PredictionsError(
            f"inference of {path} has not finished: go on with it first (-m infer -r)"
        )
    if not path.is_file():
        what = "a folder, not a predictions file" if path.is_dir() else "no predictions"
        raise PredictionsError(f"{what} at {path}: run inference first (-m infer -r)")
    rows = read_final(path, advice=advice)
    expected = read_provenance(path).get("num_rows", len(rows))
    if len(rows) != expected:
        raise PredictionsError(
            f"{path} holds {len(rows)} rows, its provenance says {expected}: {advice}"
        )
    return rows
