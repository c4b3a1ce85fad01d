"""Rows of JSON Lines, JSON, CSV and TSV files, each with the place it stands at in its file.

The files are read line by line rather than by a table library, for two reasons: an error can name
the line, and a value stays what the file says. Dates are not parsed, ``007`` in a CSV file stays
``007``, and what a template inserts is what the file holds.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from opencompass_ext.errors import DataError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_csv_limit_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of one file.

    Attributes:
        path: The file.
        rows: Column name -> value, one mapping per row.
        places: Where each row stands, counted from 1.
        unit: What ``places`` counts: ``"line"`` or ``"item"``.
    """

    path: Path
    rows: list[dict[str, Any]]
    places: Sequence[int]
    unit: str = "line"

    def where(self, row: int) -> str:
        """Return the place of a row for an error message, such as ``data.jsonl, line 3``."""
        return f"{self.path}, {self.unit} {self.places[row]}"


def read_rows(path: Path) -> FileRows:
    """Return the rows of a ``.jsonl``, ``.json``, ``.csv`` or ``.tsv`` file, or of such a ``.gz``.

    Raises:
        DataError: The file cannot be read, has no rows, or has a row that is not what its format
            promises; the message names file and line.
    """
    reader = ROW_READERS.get(plain_extension(path))
    if reader is None:
        raise DataError(
            f"{path} has the extension {path.suffix!r}: expected one of "
            f"{', '.join(ROW_READERS)}, each also with .gz"
        )
    with _opened(path) as file:
        rows = reader(path, file)
    if not rows.rows:
        raise DataError(f"{path} has no rows")
    return rows


class RowCount(NamedTuple):
    """How many rows a file has.

    Attributes:
        rows: How many.
        bytes: The bytes they are written in, names of columns included.
    """

    rows: int
    bytes: int


def count_rows(path: Path) -> RowCount:
    """Return how many rows ``read_rows`` gives, of JSON Lines without reading what they hold.

    Raises:
        DataError: The file cannot be read, or is one that ``read_rows`` refuses; of a ``.jsonl``
            file only its lines are looked at.
    """
    if plain_extension(path) != ".jsonl":
        rows = read_rows(path).rows
        return RowCount(len(rows), sum(len(str(row).encode("utf-8", "replace")) for row in rows))
    count = size = 0
    with _opened(path) as file:
        for line in file:
            if not line.isspace():
                count += 1
                size += len(line)
    return RowCount(count, size)


def plain_extension(path: Path) -> str:
    """Return the extension in lower case, without a final ``.gz``.

    Example:
        >>> plain_extension(Path("a.JSONL.gz")), plain_extension(Path("b.tar.csv"))
        ('.jsonl', '.csv')
    """
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    opener: Callable[..., Any] = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _read_json_lines(path: Path, file: BinaryIO) -> FileRows:
    rows, places = [], []
    for number, line in enumerate(_decoded_lines(path, file), start=1):
        if line.isspace() or not line:
            continue
        rows.append(_parse_object(path, number, line))
        places.append(number)
    return FileRows(path, rows, places)


def _read_json(path: Path, file: BinaryIO) -> FileRows:
    text = "".join(_decoded_lines(path, file))
    if not text.lstrip().startswith("["):
        # Many a .json file holds JSON Lines.
        return _read_json_lines(path, io.BytesIO(text.encode()))
    try:
        items = _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(f"{path}{line}{_reason(error)}") from error
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            raise DataError(
                f"{path}, item {number}: expected a JSON object "
                f'{{"column": value, ...}}, got {_describe(item)}'
            )
    return FileRows(path, items, range(1, len(items) + 1), unit="item")


def _read_delimited(path: Path, file: BinaryIO, delimiter: str) -> FileRows:
    lines = list(_decoded_lines(path, file))
    rows, places = [], []
    with _no_csv_field_limit():
        # strict: without it a quote that is never closed swallows the rest of the file.
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
            _check_header(path, header)
            start = reader.line_num + 1
            for fields in reader:
                if fields:
                    if len(fields) != len(header):
                        raise DataError(
                            f"{path}, line {start}: expected {len(header)} fields as in the "
                            f"header ({', '.join(header)}), got {len(fields)}"
                        )
                    rows.append(dict(zip(header, fields, strict=True)))
                    places.append(start)
                start = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num}: broken CSV: {error}") from error
    return FileRows(path, rows, places)


def _read_csv(path: Path, file: BinaryIO) -> FileRows:
    return _read_delimited(path, file, ",")


def _read_tsv(path: Path, file: BinaryIO) -> FileRows:
    return _read_delimited(path, file, "\t")


ROW_READERS: dict[str, Callable[[Path, BinaryIO], FileRows]] = {
    ".jsonl": _read_json_lines,
    ".json": _read_json,
    ".csv": _read_csv,
    ".tsv": _read_tsv,
}


def _decoded_lines(path: Path, file: BinaryIO) -> Iterator[str]:
    # Binary lines end at \n only. Text mode and splitlines would also cut at U+2028 and U+0085,
    # which may stand inside a JSON string.
    offset = 0
    for number, raw in enumerate(file, start=1):
        line = raw
        if number == 1:
            if raw.startswith(_UTF16_BOMS):
                raise DataError(f"{path} is UTF-16: save it as UTF-8")
            line = raw.removeprefix(_BOM)
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            at = error.start + len(raw) - len(line)
            raise DataError(
                f"{path}, line {number}: byte 0x{raw[at]:02x} at offset {offset + at} of the file "
                f"is not UTF-8 ({error.reason}): save the file as UTF-8, "
                f"for example with iconv -f gb18030 -t utf-8"
            ) from error
        offset += len(raw)


def _parse_object(path: Path, number: int, line: str) -> dict[str, Any]:
    where = f"{path}, line {number}"
    try:
        value = _decoder.decode(line)
    except (ValueError, RecursionError) as error:
        hint = ""
        if number == 1 and line.strip() in ("[", "{"):
            hint = "; JSON Lines have one whole object on each line"
        raise DataError(f"{where}{_reason(error)}{hint}") from error
    if not isinstance(value, dict):
        hint = "; a file that is one JSON list is named .json" if isinstance(value, list) else ""
        raise DataError(
            f'{where}: expected a JSON object {{"column": value, ...}}, '
            f"got {_describe(value)}{hint}"
        )
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number: write null or a finite number")


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return value


_decoder = json.JSONDecoder(
    parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated_keys
)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f", column {error.colno}: broken JSON: {error.msg}"
    if isinstance(error, RecursionError):
        return ": broken JSON: nested too deeply"
    return f": broken JSON: {error}"


def _check_header(path: Path, header: list[str]) -> None:
    empty = [i for i, name in enumerate(header, start=1) if not name.strip()]
    if empty:
        raise DataError(f"{path}, line 1: column {empty[0]} of the header has no name")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{path}, line 1: the header names {twice[0]!r} twice")


@contextmanager
def _no_csv_field_limit() -> Iterator[None]:
    # The limit of 131,072 characters is one number for the whole process.
    with _csv_limit_lock:
        before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _describe(value: object) -> str:
    names = {str: "text", bool: "a boolean", list: "a list", dict: "an object", type(None): "null"}
    kind = names.get(type(value), "a number")
    shown = json.dumps(value, ensure_ascii=False)
    return f"{kind}: {shown if len(shown) <= 60 else shown[:57] + '...'}"
