"""Questions to a retrieval-augmented system: the data of THELMA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opencompass_ext.datasets.arrow import rows_to_dataset
from opencompass_ext.datasets.base import BaseDataset
from opencompass_ext.datasets.paths import find_data_file
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
    def load(path: str, name: str | None = None) -> Dataset:  # type: ignore[override]
        """Return the checked rows; see the class.

        Raises:
            DataError: The file is missing or broken, or a row is not as it must be; the message
                names file, line and column.
        """
        file = read_rows(find_data_file(path, name, RAG_EXTENSIONS))
        ids = index_by_id(file)
        rows = []
        for name_of_row, index in ids.items():
            try:
                rows.append({**_checked(file.rows[index]), "id": name_of_row})
            except DataError as error:
                raise DataError(f"{file.where(index)}: {error}") from error
        return rows_to_dataset(FileRows(file.path, rows, file.places, file.unit))

    def where(self, row: int) -> str:
        """Return file and line of a row, by reading the file once more."""
        arguments = self.load_arguments
        file = find_data_file(arguments["path"], arguments.get("name"), RAG_EXTENSIONS)
        return read_rows(file).where(row)


def sources_text(sources: list[Source]) -> str:
    r"""Return the sources as they stand in a prompt.

    Example:
        >>> sources_text([{"id": "1", "text": "Tea is hot."}, {"id": "2", "text": "Ice is cold."}])
        '[1] Tea is hot.\n\n[2] Ice is cold.'
    """
    return "\n\n".join(f"[{source['id']}] {source['text']}" for source in sources)


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    if SOURCES_TEXT in row:
        raise DataError(
            f"the column {SOURCES_TEXT!r} is made from 'sources': rename the data's own"
        )
    required_text(row, "query")
    if row.get("response") is not None:
        required_text(row, "response", may_be_empty=True)
    sources = sources_of(row)
    text = None if sources is None else sources_text(sources)
    return {**row, "sources": sources, SOURCES_TEXT: text}
