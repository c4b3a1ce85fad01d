"""A data set from one local file: JSON Lines, JSON, CSV, TSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opencompass_ext.datasets.arrow import rows_to_dataset, table_to_dataset
from opencompass_ext.datasets.base import BaseDataset
from opencompass_ext.datasets.paths import find_data_file
from opencompass_ext.datasets.row_files import (
    ROW_READERS,
    RowCount,
    count_rows,
    plain_extension,
    read_rows,
)
from opencompass_ext.errors import DataError
from opencompass_ext.registry import DATASETS

if TYPE_CHECKING:
    from datasets import Dataset

_PARQUET = ".parquet"
_EXTENSIONS = (*ROW_READERS, *(f"{e}.gz" for e in ROW_READERS), _PARQUET)


@DATASETS.register_module()
class JsonlDataset(BaseDataset):
    """The rows of one local file; the extension says which format.

    ``.jsonl``: one JSON object per line, blank lines skipped. ``.json``: a list of objects, or JSON
    Lines. ``.csv`` and ``.tsv``: a header, then rows whose values are all text, exactly as written.
    These four also with ``.gz``. ``.parquet``: its columns. Text is UTF-8, with or without BOM.
    A column that mixes numbers and text is read as text, with a warning. Reads no network and
    writes no cache.

    Config keys:
        path: The file, or the folder it lies in. A relative path is looked up below the current
            folder, then among the files shipped with the package.
        name: File name in the folder ``path``, with or without extension.

    Example:
        >>> rows = JsonlDataset(path="data/gsm8k/gsm8k.jsonl", limit=2).test
        >>> rows.column_names, len(rows)
        (['id', 'question', 'answer'], 2)
    """

    @staticmethod
    def load(path: str, name: str | None = None) -> Dataset:  # type: ignore[override]
        """Return the rows of the file; see the class.

        Raises:
            DataError: The file is missing or broken; the message names the line.
        """
        file = find_data_file(path, name, _EXTENSIONS)
        if plain_extension(file) == _PARQUET:
            return _read_parquet(file)
        return rows_to_dataset(read_rows(file))

    @classmethod
    def count(cls, path: str, name: str | None = None) -> RowCount | None:  # type: ignore[override]
        """Return how many rows there are; None for Parquet, which only pyarrow can tell."""
        file = find_data_file(path, name, _EXTENSIONS)
        return None if plain_extension(file) == _PARQUET else count_rows(file)

    def where(self, row: int) -> str:
        """Return file and line of a row, by reading the file once more."""
        arguments = self.load_arguments
        file = find_data_file(arguments["path"], arguments.get("name"), _EXTENSIONS)
        if plain_extension(file) == _PARQUET:
            return f"{file}, row {row + 1}"
        return read_rows(file).where(row)


def _read_parquet(file: Path) -> Dataset:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot read {file} as Parquet: {error}") from error
    if table.num_rows == 0:
        raise DataError(f"{file} has no rows")
    return table_to_dataset(table)
