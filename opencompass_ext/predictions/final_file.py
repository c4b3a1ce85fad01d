"""A finished predictions file and the provenance beside it.

The provenance holds what made the rows, one key per row, and the hash of the file it belongs to: a
file that was edited by hand, or written by another program, is never taken for finished work (it
can be evaluated).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opencompass_ext.digests import file_sha256
from opencompass_ext.errors import PredictionsError
from opencompass_ext.outputs import provenance_path
from opencompass_ext.predictions.journal import Row
from opencompass_ext.records import RowRange
from opencompass_ext.redact import hide_secrets
from opencompass_ext.writing import atomic_writer, to_json, write_json

logger = logging.getLogger(__name__)

HEAD, SEPARATOR, TAIL = b"{\n", b",\n", b"\n}"


class RowIdentities(NamedTuple):
    """What tells whether rows of a file are still those that are asked for.

    Attributes:
        row_keys: One per row: a hash of what the model was given, of the model and the settings.
        data_keys: One per row: a hash of all of the dataset's row; None where it is not known.
    """

    row_keys: list[str]
    data_keys: list[str] | None

    def of(self, start: int, stop: int) -> RowIdentities:
        """Return those of the rows ``[start, stop)``."""
        data_keys = None if self.data_keys is None else self.data_keys[start:stop]
        return RowIdentities(self.row_keys[start:stop], data_keys)


def data_key(row: Mapping[str, Any], label_columns: Sequence[str] = ()) -> str:
    """Return 16 hex digits that change with anything in a row of a dataset but its labels.

    Args:
        row: The row.
        label_columns: Columns that no model reads; see ``BaseDataset.label_columns``.

    Example:
        >>> data_key({"question": "q", "answer": "a"}) == data_key({"answer": "a", "question": "q"})
        True
        >>> data_key({"answer": "a", "votes": 3}, ["votes"]) == data_key({"answer": "a"})
        True
    """
    read = {name: value for name, value in row.items() if name not in label_columns}
    canonical = json.dumps(read, sort_keys=True, default=repr)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def write_final(
    path: Path,
    chunks: Iterator[bytes],
    identities: RowIdentities,
    provenance: Mapping[str, Any],
    rows: RowRange | None = None,
) -> None:
    """Write a predictions file in one step, and then its provenance.

    Args:
        path: The file.
        chunks: Its content.
        identities: Of its rows.
        provenance: What made the rows. Plain JSON values.
        rows: Which rows of the dataset it holds, when it is a part of a whole.

    Raises:
        OutputError: It cannot be written.
    """
    digest = hashlib.sha256()
    with atomic_writer(path) as file:
        for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
    write_json(
        provenance_path(path),
        {
            **hide_secrets(provenance),
            **({} if rows is None else {"rows": list(rows)}),
            "num_rows": len(identities.row_keys),
            "predictions_sha256": digest.hexdigest(),
            **identities._asdict(),
        },
    )


def final_chunks(rows: Mapping[int, Row], count: int, first_row: int = 0) -> Iterator[bytes]:
    """Yield rows as JSON, one at a time: a line per field, as OpenCompass indents them.

    What is nested in a field, such as the details of a thousand tokens, stays on its line.

    Args:
        rows: By index, from 0.
        count: How many.
        first_row: Number of row 0 in the dataset: rows are written under these numbers.
    """
    if count == 0:
        yield b"{}"
        return
    for i in range(count):
        fields = [b"        %s: %s" % (to_json(k), to_json(v)) for k, v in rows[i].items()]
        start = HEAD if i == 0 else SEPARATOR
        yield b'%s    "%d": {\n%s\n    }' % (start, first_row + i, SEPARATOR.join(fields))
    yield TAIL


_ABOUT_ROWS = ("rows", "num_rows", "predictions_sha256", "row_keys", "data_keys")
DO_AGAIN = "remove it and run inference again (-m infer -r)"


def read_final(path: Path, first_row: int = 0, advice: str = DO_AGAIN) -> list[Row]:
    """Return the rows of a predictions file, in order.

    Args:
        path: The file.
        first_row: The number its first row should have.
        advice: What an error tells the user to do about a damaged file.

    Raises:
        PredictionsError: It is not what this program or OpenCompass writes.
    """
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise PredictionsError(f"{path} is not valid JSON ({error}): {advice}") from None
    is_right = isinstance(rows, dict) and all(
        isinstance(rows.get(str(first_row + i)), dict) for i in range(len(rows))
    )
    if not is_right:
        raise PredictionsError(
            f'{path}: expected an object of rows keyed "{first_row}", "{first_row + 1}", ... '
            f"without a gap, each row an object: {advice}"
        )
    return [rows[str(first_row + i)] for i in range(len(rows))]


def read_provenance(path: str | Path) -> dict[str, Any]:
    """Return what is recorded beside a predictions file; empty when nothing readable is."""
    provenance = provenance_path(Path(path))
    try:
        value = json.loads(provenance.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        logger.warning("%s: not valid JSON (%s), not used", provenance, error)
        return {}
    return value if isinstance(value, dict) else {}


def read_made_by(path: Path) -> dict[str, Any]:
    """Return what a file's provenance says of who made its rows, without what rows they are."""
    return {k: v for k, v in read_provenance(path).items() if k not in _ABOUT_ROWS}


def identities_of(path: Path) -> RowIdentities | None:
    """Return the identities of a file's rows; None without a file or provenance that fits it."""
    if not path.exists():
        return None
    provenance = read_provenance(path)
    keys, data_keys = provenance.get("row_keys"), provenance.get("data_keys")
    if isinstance(keys, list) and provenance.get("predictions_sha256") == file_sha256(path):
        return RowIdentities(keys, data_keys if isinstance(data_keys, list) else None)
    return None


def changed_row(
    path: Path, test_set: Sequence[Mapping[str, Any]], label_columns: Sequence[str] = ()
) -> int | None:
    """Return the first row of a dataset that is no longer what was inferred; None if all are.

    Args:
        path: The predictions file. Without recorded data keys nothing can be said.
        test_set: As many rows as the file has.
        label_columns: Columns that may have changed; see ``data_key``.
    """
    keys = read_provenance(path).get("data_keys")
    if not isinstance(keys, list):
        return None
    pairs = zip(keys, test_set, strict=True)
    return next(
        (i for i, (key, row) in enumerate(pairs) if key != data_key(row, label_columns)), None
    )
