"""What a row of a RAG data set, or of a system's log, must be; and its sources in one form."""

from __future__ import annotations

import hashlib
import itertools
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.datasets.row_files import FileRows
from opencompass_ext.datasets.structured_text import json_to_text, table_to_text
from opencompass_ext.errors import DataError, did_you_mean

RAG_EXTENSIONS = (".jsonl", ".jsonl.gz", ".json", ".json.gz")

_CONTENT = ("text", "table", "json")
_SOURCE = 'text, or {"id": ..., "text" | "table" | "json": ...}'
# Other names under which logs hold the same thing.
_LIKE_SOURCES = ("source", "contexts", "context", "documents", "docs", "chunks", "passages")

Source = dict[str, str]


def index_by_id(file: FileRows) -> dict[str, int]:
    """Return where each id stands among the rows.

    Raises:
        DataError: A row has no id, or two rows have the same; the message names file and lines.
    """
    places: dict[str, int] = {}
    for index, row in enumerate(file.rows):
        if "id" not in row:
            raise DataError(f"{file.where(index)}: {_missing('id', row)}")
        name = _as_id(row["id"])
        if name is None:
            raise DataError(
                f"{file.where(index)}: 'id' must be text or a whole number, got {row['id']!r:.80}"
            )
        if name in places:
            raise DataError(
                f"{file.where(index)}: the id {name!r} stands already at "
                f"{file.unit} {file.places[places[name]]}: every row needs an id of its own"
            )
        places[name] = index
    return places


def required_text(row: Mapping[str, Any], column: str, *, may_be_empty: bool = False) -> str:
    """Return the text of a column; null is an empty text where that may be.

    Raises:
        DataError: There is no such column, or no text in it.
    """
    if column not in row:
        raise DataError(_missing(column, row))
    value = row[column]
    if value is None and may_be_empty:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{column!r} must be text, got {value!r:.80}")
    if not may_be_empty and is_blank(value):
        raise DataError(f"{column!r} is blank")
    return value


def sources_of(row: Mapping[str, Any]) -> list[Source] | None:
    """Return the sources of a row as ``{"id", "text"}`` each, or None where it does not give any.

    A source without an id is called by its place, counted from 1; of sources with one id, such as
    two chunks of a document, the second is called ``<id>#2``. A table or JSON value is rendered to
    text, see ``structured_text``; one that is empty or null gives an empty text, as nothing was
    retrieved. Further keys of a source, such as a score of the retriever, are not part of its text
    and are left out.

    Raises:
        DataError: ``sources`` is no list, or a source is not of a form that is known.

    Example:
        >>> sources_of({"sources": ["Tea is hot.", {"id": "menu", "json": {"tea": {"price": 3}}}]})
        [{'id': '1', 'text': 'Tea is hot.'}, {'id': 'menu', 'text': '- tea > price: 3'}]
        >>> sources_of({"query": "What is tea?"}) is None
        True
    """
    if "sources" not in row:
        similar = [name for name in row if name.lower() in _LIKE_SOURCES]
        if similar:
            raise DataError(f"the column {similar[0]!r} is not known: name it 'sources'")
        return None
    given = row["sources"]
    if given is None:
        return None
    if not isinstance(given, list):
        raise DataError(
            f"'sources' must be a list, one entry per retrieved chunk, got {given!r:.80}"
        )
    return _with_own_ids([_source(source, number) for number, source in enumerate(given, start=1)])


def is_blank(text: str) -> bool:
    r"""Tell whether a text shows nothing: blanks, and characters without width, such as U+200B.

    Example:
        >>> is_blank(" \n\u200b\ufeff"), is_blank("\u200btea")
        (True, False)
    """
    return all(c.isspace() or unicodedata.category(c) in ("Cc", "Cf") for c in text)


def response_key(response: str | None) -> str:
    r"""Return 16 hex digits of a response: whether two results speak of the same one.

    Blanks around it are not looked at, as no metric does.

    Example:
        >>> response_key("Tea is hot.\n") == response_key(" Tea is hot.")
        True
    """
    text = (response or "").strip()
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _source(source: Any, number: int) -> Source:
    if isinstance(source, str):
        return {"id": str(number), "text": source}
    if not isinstance(source, Mapping):
        raise DataError(f"source {number} must be {_SOURCE}, got {source!r:.80}")
    name = str(number) if source.get("id") is None else _as_id(source["id"])
    if name is None:
        raise DataError(
            f"source {number}: 'id' must be text or a whole number, got {source['id']!r:.80}"
        )
    # A table library writes null into the columns that a row does not have.
    given = [key for key in _CONTENT if source.get(key) is not None]
    if not given and any(key in source for key in _CONTENT):
        return {"id": name, "text": ""}
    if len(given) != 1:
        raise DataError(
            f"source {number} must have exactly one of 'text', 'table' and 'json', got the keys "
            f"{', '.join(map(repr, source)) or 'none'}"
        )
    return {"id": name, "text": _rendered(given[0], source[given[0]], number)}


def _rendered(form: str, content: Any, number: int) -> str:
    if form == "json":
        return json_to_text(content)
    if form == "table":
        try:
            return table_to_text(content)
        except ValueError as error:
            raise DataError(f"source {number}: {error}") from error
    if not isinstance(content, str):
        raise DataError(f"source {number}: 'text' must be text, got {content!r:.80}")
    return content


def _as_id(value: Any) -> str | None:
    if isinstance(value, str) and value.strip():
        return value
    return str(value) if type(value) is int else None


def _with_own_ids(sources: Sequence[Source]) -> list[Source]:
    # A name that a source brings is never given to another one.
    taken = {source["id"] for source in sources}
    seen: set[str] = set()
    renamed = []
    for source in sources:
        name = source["id"]
        if name in seen:
            candidates = (f"{source['id']}#{number}" for number in itertools.count(2))
            name = next(candidate for candidate in candidates if candidate not in taken)
            taken.add(name)
        seen.add(name)
        renamed.append({**source, "id": name})
    return renamed


def _missing(column: str, row: Mapping[str, Any]) -> str:
    return f"no column {column!r}: {did_you_mean(column, list(row)) if row else 'the row is empty'}"
