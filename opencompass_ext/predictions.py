"""The predictions file of one model on one dataset: resumed, completed, read back.

While a run is going on, finished rows stand in the journal ``<dataset>.journal``. When all are
there they become ``<dataset>.json`` in one step, with the row keys in ``<dataset>.provenance``
beside it. The provenance carries the hash of the predictions it belongs to: a file that was edited
by hand, or written by another program, is never taken for finished work (it can be evaluated).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from opencompass_ext.errors import PredictionsError
from opencompass_ext.journal import Journal, Row
from opencompass_ext.outputs import (
    atomic_writer,
    journal_path,
    lock_path,
    provenance_path,
    to_json,
    write_json,
    writing,
)
from opencompass_ext.redact import hide_secrets

logger = logging.getLogger(__name__)

# A worker whose run was killed finishes the batch in hand, and ends 30 seconds later at most.
LOCK_WAIT_SECONDS = 35.0


class PredictionsFile:
    """Rows of one predictions file: those that are finished, and a safe place for those to come.

    Making one only reads. The lock is taken on entering the context manager or by the first
    ``append``, whichever comes first, and held until ``finish`` or ``close``.

    Args:
        path: The final file, ``<dataset>.json``.
        row_keys: One key per row of the dataset, in order.

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

    def __init__(self, path: str | Path, row_keys: Sequence[str]) -> None:
        self.path = Path(path)
        self.row_keys = list(row_keys)
        self._lock: FileLock | None = None
        # A complete file is parsed only when somebody asks for its rows.
        self._rows: dict[int, Row] | None = None
        self._parts: dict[int, Row] = {}
        self._load()

    @property
    def rows(self) -> dict[int, Row]:
        """Finished rows by index; not to be changed."""
        if self._rows is None:
            self._rows = dict(enumerate(_read_final(self.path)))
        return self._rows

    @property
    def parts(self) -> Mapping[int, Row]:
        """Of rows that are not finished, the fields that are there, by index."""
        return self._parts

    @property
    def is_complete(self) -> bool:
        """Whether the final file holds exactly the rows that the keys ask for."""
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
        digest = hashlib.sha256()
        with atomic_writer(self.path) as file:
            for chunk in _final_chunks(self.rows, count):
                digest.update(chunk)
                file.write(chunk)
        write_json(
            provenance_path(self.path),
            {
                **hide_secrets(provenance),
                "num_rows": count,
                "predictions_sha256": digest.hexdigest(),
                "row_keys": self.row_keys,
            },
        )
        self._is_complete = True
        self._journal.remove()
        self.close()

    def close(self) -> None:
        """Give the lock back. Rows that are not part of a final file stay in the journal."""
        self._journal.close()
        if self._lock is not None:
            # Removed while still held: whoever opens the path from now on makes a new lock.
            lock_path(self.path).unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def __enter__(self) -> PredictionsFile:
        if not self._is_complete or self._journal.path.exists():
            self._acquire()
        if self._is_complete:
            # An earlier run may have ended between its last two steps.
            self._journal.remove()
            self.close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _load(self) -> None:
        self._seen = self._state_on_disk()
        self._journal = Journal(journal_path(self.path), self.row_keys)
        self._only_in_final: dict[int, Row] = {}
        self._rows = None
        self._parts = {}
        old_keys = self._keys_of_final_file()
        self._is_complete = old_keys == self.row_keys
        if self._is_complete:
            return
        final = self._final_rows_still_right(old_keys) if old_keys is not None else {}
        journal = self._journal.read()
        self._only_in_final = {i: row for i, row in final.items() if i not in journal.whole}
        self._rows = {**final, **journal.whole}
        self._parts = {i: part for i, part in journal.parts.items() if i not in self._rows}

    def _keys_of_final_file(self) -> list[str] | None:
        """Return the row keys of the final file if this program wrote both, as they stand."""
        if not self.path.exists():
            return None
        provenance = read_provenance(self.path)
        keys = provenance.get("row_keys")
        if isinstance(keys, list) and provenance.get("predictions_sha256") == _sha256(self.path):
            return keys
        logger.warning(
            "%s: nothing tells which data and model its rows came from (no %s that fits it); "
            "they are done again",
            self.path,
            provenance_path(self.path).name,
        )
        return None

    def _final_rows_still_right(self, old_keys: list[str]) -> dict[int, Row]:
        final = _read_final(self.path)
        pairs = enumerate(zip(old_keys, self.row_keys, strict=False))
        rows = {i: final[i] for i, (old, new) in pairs if old == new}
        logger.warning(
            "%s: data or model have changed: %d of its %d rows serve for the %d rows asked for",
            self.path,
            len(rows),
            len(final),
            len(self.row_keys),
        )
        return rows

    def _acquire(self) -> None:
        if self._lock is not None:
            return
        self._lock = self._locked()
        if self._state_on_disk() != self._seen:
            self._load()
        if self._only_in_final:
            # Rows that stand only in the old final file would be lost if the machine died
            # between the new final file and its provenance.
            self._journal.append(self._only_in_final)
            self._only_in_final = {}

    def _locked(self) -> FileLock:
        path = lock_path(self.path)
        lock = FileLock(path)
        with writing(path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
                return lock
            except Timeout:
                logger.warning("waiting for another process that is writing %s", self.path)
            try:
                lock.acquire(timeout=LOCK_WAIT_SECONDS)
                return lock
            except Timeout:
                raise PredictionsError(
                    f"another process is writing {self.path} (it holds {path}): wait for it to "
                    "end, or start a new run without -r"
                ) from None

    def _state_on_disk(self) -> list[tuple[int, int, int] | None]:
        states: list[tuple[int, int, int] | None] = []
        for path in (self.path, provenance_path(self.path), journal_path(self.path)):
            try:
                stat = path.stat()
                states.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
            except FileNotFoundError:
                states.append(None)
        return states


def load_predictions(path: str | Path) -> list[Row]:
    """Return the rows of a finished predictions file, in order.

    A file without provenance, such as one that OpenCompass made, is taken as it is.

    Raises:
        PredictionsError: The file is missing or damaged, or inference has not finished.
    """
    path = Path(path)
    if journal_path(path).exists():
        raise PredictionsError(
            f"inference of {path} has not finished: go on with it first (-m infer -r)"
        )
    if not path.exists():
        raise PredictionsError(f"no predictions at {path}: run inference first (-m infer -r)")
    rows = _read_final(path)
    expected = read_provenance(path).get("num_rows", len(rows))
    if len(rows) != expected:
        raise PredictionsError(
            f"{path} holds {len(rows)} rows, its provenance says {expected}: run inference again "
            "(-m infer -r)"
        )
    return rows


def read_provenance(path: str | Path) -> dict[str, Any]:
    """Return what is recorded beside a predictions file; empty when nothing readable is."""
    provenance = provenance_path(Path(path))
    try:
        value = json.loads(provenance.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        logger.warning("%s: not valid JSON (%s), not used", provenance, error)
        return {}
    return value if isinstance(value, dict) else {}


def _read_final(path: Path) -> list[Row]:
    try:
        rows = json.loads(path.read_bytes())
    except ValueError as error:
        raise PredictionsError(
            f"{path} is not valid JSON ({error}): remove it and run inference again (-m infer -r)"
        ) from None
    is_right = isinstance(rows, dict) and all(
        isinstance(rows.get(str(i)), dict) for i in range(len(rows))
    )
    if not is_right:
        raise PredictionsError(
            f'{path}: expected an object of rows keyed "0", "1", ... without a gap, each row an '
            "object: remove it and run inference again (-m infer -r)"
        )
    return [rows[str(i)] for i in range(len(rows))]


def _final_chunks(rows: Mapping[int, Row], count: int) -> Iterator[bytes]:
    """Yield the rows as JSON, one at a time: a line per field, as OpenCompass indents them.

    What is nested in a field, such as the details of a thousand tokens, stays on its line.
    """
    if count == 0:
        yield b"{}"
        return
    for i in range(count):
        start = b"{\n" if i == 0 else b",\n"
        fields = [b"        %s: %s" % (to_json(k), to_json(v)) for k, v in rows[i].items()]
        yield b'%s    "%d": {\n%s\n    }' % (start, i, b",\n".join(fields))
    yield b"\n}"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
