"""Pairs of answered questions of which one is known to be better: does a metric see it?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opencompass_ext.datasets.arrow import rows_to_dataset
from opencompass_ext.datasets.base import BaseDataset
from opencompass_ext.datasets.paths import find_data_file
from opencompass_ext.datasets.rag import sources_text
from opencompass_ext.datasets.rag_rows import (
    RAG_EXTENSIONS,
    index_by_id,
    required_text,
    sources_of,
)
from opencompass_ext.datasets.row_files import FileRows, read_rows
from opencompass_ext.errors import DataError
from opencompass_ext.registry import DATASETS

if TYPE_CHECKING:
    from datasets import Dataset

SIDES = ("better", "worse")


@DATASETS.register_module()
class RAGPairsDataset(BaseDataset):
    """Rows ``{"id", "query", "better": {...}, "worse": {...}, ...}``, each read as two rows.

    ``better`` and ``worse`` hold ``response`` and ``sources``; what both share, such as the
    sources, may stand beside them instead. ``aspect`` says in which respect the one is better.

    The rows that are read are those of a ``RAGDataset`` with a ``response``, and the columns
    ``pair``, ``side`` (``"better"`` or ``"worse"``) and ``aspect`` (null where there is none): row
    2i is the better one of pair i, row 2i + 1 the worse one.

    ``reader_cfg -> test_range`` and ``limit`` count pairs: the sides of one are never cut apart.

    Config keys:
        path: The file, or the folder it lies in. A relative path is looked up below the current
            folder, then among the files shipped with the package.
        name: File name in the folder, without ``.jsonl``.
        aspect: Only the pairs of this aspect.
    """

    group_column = "pair"

    @staticmethod
    def load(  # type: ignore[override]
        path: str, name: str | None = None, aspect: str | None = None
    ) -> Dataset:
        """Return the checked rows; see the class.

        Raises:
            DataError: The file is missing or broken, a row is not as it must be, or no pair has
                the aspect; the message names file and line.
        """
        return rows_to_dataset(_test_rows(path, name, aspect))

    def where(self, row: int) -> str:
        """Return file and line of the pair of a row, by reading the file once more."""
        return _test_rows(**self.load_arguments).where(row)


def _test_rows(path: str, name: str | None = None, aspect: str | None = None) -> FileRows:
    file = read_rows(find_data_file(path, name, RAG_EXTENSIONS))
    rows: list[dict[str, Any]] = []
    places: list[int] = []
    aspects: dict[str, None] = {}
    for pair, index in index_by_id(file).items():
        row = file.rows[index]
        try:
            found = [_side(pair, row, side) for side in SIDES]
        except DataError as error:
            raise DataError(f"{file.where(index)}: {error}") from error
        aspects[str(row.get("aspect"))] = None
        if aspect is None or row.get("aspect") == aspect:
            rows += found
            places += [file.places[index]] * len(SIDES)
    if not rows:
        raise DataError(
            f"{file.path} has no pair of the aspect {aspect!r}; there are {', '.join(aspects)}"
        )
    return FileRows(file.path, rows, places, file.unit)


def _side(pair: str, row: Mapping[str, Any], side: str) -> dict[str, Any]:
    own = row.get(side)
    if not isinstance(own, Mapping):
        raise DataError(
            f"{side!r} must be an object with 'response', 'sources' or both, got {own!r:.80}"
        )
    both = {**row, **own}
    sources = sources_of(both)
    if sources is None:
        raise DataError(f"no 'sources', neither in {side!r} nor beside it")
    return {
        "id": f"{pair}/{side}",
        "pair": pair,
        "side": side,
        "aspect": row.get("aspect"),
        "query": required_text(row, "query"),
        "sources": sources,
        "sources_text": sources_text(sources),
        "response": required_text(both, "response", may_be_empty=True),
    }
