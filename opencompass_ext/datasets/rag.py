"""Questions to a retrieval-augmented system: the data of THELMA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opencompass_ext.datasets.arrow import rows_to_dataset
from opencompass_ext.datasets.base import BaseDataset
from opencompass_ext.datasets.paths import find_data_file
from opencompass_ext.datasets.predicted_answers import answered_rows, read_answers
from opencompass_ext.datasets.rag_rows import (
    RAG_EXTENSIONS,
    Source,
    index_by_id,
    required_text,
    sources_of,
)
from opencompass_ext.datasets.reader import MissingValueError
from opencompass_ext.datasets.row_files import FileRows, read_rows
from opencompass_ext.errors import DataError
from opencompass_ext.registry import DATASETS

if TYPE_CHECKING:
    from datasets import Dataset

SOURCES_TEXT = "sources_text"
_FROM = "responses_from"
# Columns that speak of the data's own response.
_OF_RESPONSE = ("response", "grounded")


@DATASETS.register_module()
class RAGDataset(BaseDataset):
    """Rows ``{"id", "query", "sources", ...}``; no reference answer is needed.

    ``sources`` is a list, one entry per retrieved chunk: a text, or an object with ``text``,
    ``table`` or ``json`` and optionally an ``id``. It may be left out when every system under test
    brings its own, as a ``RecordedModel`` does. Tables and JSON become text by the rule of
    ``structured_text``. Further columns are kept.

    Each row also gets the column ``sources_text`` for prompts: the sources one after another, each
    behind its id in brackets; null where the row has no list of sources.

    Config keys:
        path: The file, or the folder it lies in. A relative path is looked up below the current
            folder, then among the files shipped with the package.
        name: File name in the folder, without ``.jsonl``.
        responses_from: A predictions file, of this package or of OpenCompass, whose answers become
            the column ``response``, and the sources the system retrieved itself, where it holds
            them, ``sources``; a ``grounded`` of the data, which speaks of its own response, is
            left out. ``"<work_dir>/<time>/predictions/<system>/<dataset>.json"``, where
            ``latest`` in place of the time stands for the latest run; or ``dict(path=...,
            check_prompts=False)``, where its prompts do not hold the queries. Row i of it answers
            row i of the data.
        responses_range: The rows that ``responses_from`` answers, when these are not all: the
            ``test_range`` they were generated with. The others are left out.
    """

    def __init__(
        self,
        reader_cfg: Mapping[str, Any] | None = None,
        limit: int | None = None,
        **load_arguments: Any,
    ) -> None:
        try:
            super().__init__(reader_cfg, limit, **load_arguments)
        except MissingValueError as error:
            if error.column not in ("sources", SOURCES_TEXT):
                raise
            raise DataError(
                f"{error}: leave {error.column!r} out of input_columns when the systems under test "
                "bring their own sources, as a RecordedModel does; a live model needs 'sources' in "
                "every row, an empty list where nothing was retrieved"
            ) from None

    @staticmethod
    def load(  # type: ignore[override]
        path: str,
        name: str | None = None,
        responses_from: str | Mapping[str, Any] | None = None,
        responses_range: int | float | str | None = None,
    ) -> Dataset:
        """Return the checked rows; see the class.

        Raises:
            DataError: The file is missing or broken, or a row is not as it must be; the message
                names file, line and column.
            ConfigError: ``responses_from`` or ``responses_range`` is not what it has to be.
            PredictionsError: The predictions file is missing, damaged or unfinished.
        """
        return rows_to_dataset(_test_rows(path, name, responses_from, responses_range))

    def where(self, row: int) -> str:
        """Return file and line of a row, by reading the file once more."""
        return _test_rows(**self.load_arguments).where(row)


def sources_text(sources: list[Source]) -> str:
    r"""Return the sources as they stand in a prompt.

    Example:
        >>> sources_text([{"id": "1", "text": "Tea is hot."}, {"id": "2", "text": "Ice is cold."}])
        '[1] Tea is hot.\n\n[2] Ice is cold.'
    """
    return "\n\n".join(f"[{source['id']}] {source['text']}" for source in sources)


def _test_rows(
    path: str,
    name: str | None = None,
    responses_from: str | Mapping[str, Any] | None = None,
    responses_range: int | float | str | None = None,
) -> FileRows:
    file = read_rows(find_data_file(path, name, RAG_EXTENSIONS))
    names = list(index_by_id(file))
    read = answered_rows(len(names), responses_from, responses_range, _FROM)
    rows = []
    for i in read:
        try:
            rows.append({**_checked(file.rows[i]), "id": names[i]})
        except DataError as error:
            raise DataError(f"{file.where(i)}: {error}") from error
    if responses_from is not None:
        answers = read_answers(responses_from, [row["query"] for row in rows], _FROM)
        rows = [_answered(row, answer) for row, answer in zip(rows, answers.rows, strict=True)]
    return FileRows(file.path, rows, [file.places[i] for i in read], file.unit)


def _answered(row: dict[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with another response than its own, and what is known of that one."""
    kept = {name: value for name, value in row.items() if name not in _OF_RESPONSE}
    sources = sources_of(answer)
    own = {} if sources is None else {"sources": sources, SOURCES_TEXT: sources_text(sources)}
    return {**kept, **own, "response": answer["prediction"]}


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    if SOURCES_TEXT in row:
        raise DataError(
            f"the column {SOURCES_TEXT!r} is made from 'sources': rename the data's own"
        )
    required_text(row, "query")
    if "response" in row:
        row = {**row, "response": required_text(row, "response", may_be_empty=True)}
    sources = sources_of(row)
    text = None if sources is None else sources_text(sources)
    return {**row, "sources": sources, SOURCES_TEXT: text}
