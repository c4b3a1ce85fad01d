"""Texts with labelled spans: the data of Inference-PPL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opencompass_ext.datasets.arrow import rows_to_dataset
from opencompass_ext.datasets.base import BaseDataset
from opencompass_ext.datasets.paths import find_data_file
from opencompass_ext.datasets.row_files import FileRows, RowCount, count_rows, read_rows
from opencompass_ext.errors import DataError
from opencompass_ext.registry import DATASETS

if TYPE_CHECKING:
    from datasets import Dataset

_EXTENSIONS = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
_SHAPE = "[start, end, 1]"


@DATASETS.register_module()
class InferencePPLDataset(BaseDataset):
    """Rows ``{"text": str, "label": [[start, end, 1], ...]}``, in OpenCompass's format.

    ``[start, end)`` are character offsets into ``text``, that is, indices of a Python ``str``.
    Spans may touch or overlap; ``label: []`` labels nothing. The third item says that the span
    counts; it may be left out. Further columns are kept.

    A row with an empty text is kept, where OpenCompass drops it: row i of the predictions is then
    always row i of the file. It has nothing to label and adds 0 to both sums of the metric.

    Config keys:
        path: The folder of the file, or the file itself. A relative path is looked up below the
            current folder, then among the files shipped with the package.
        name: File name in the folder, without ``.jsonl``.
        samples: Only the first so many rows.

    Example:
        >>> rows = InferencePPLDataset(path="data/inference_ppl", name="zh_cmath_answer", limit=1)
        >>> row = rows.test[0]
        >>> [row["text"][start:end] for start, end, _ in row["label"]]
        ['50']
    """

    @staticmethod
    def load(  # type: ignore[override]
        path: str, name: str | None = None, samples: int | None = None
    ) -> Dataset:
        """Return the checked rows; see the class.

        Raises:
            DataError: The file is missing or broken, or a row has no text, no label, or a span
                that is not inside its text; the message names file, line and span.
        """
        _check_samples(samples)
        file = read_rows(find_data_file(path, name, _EXTENSIONS))
        for index, row in enumerate(file.rows):
            problem = _problem(row)
            if problem is not None:
                raise DataError(f"{file.where(index)}: {problem}")
        return rows_to_dataset(FileRows(file.path, file.rows[:samples], file.places, file.unit))

    @classmethod
    def count(  # type: ignore[override]
        cls, path: str, name: str | None = None, samples: int | None = None
    ) -> RowCount:
        """Return how many rows there are.

        Raises:
            DataError: The file is missing or cannot be read, or ``samples`` is no number of rows.
        """
        _check_samples(samples)
        rows, size = count_rows(find_data_file(path, name, _EXTENSIONS))
        kept = rows if samples is None else min(rows, samples)
        return RowCount(kept, size * kept // max(rows, 1))

    def where(self, row: int) -> str:
        """Return file and line of a row, by reading the file once more."""
        arguments = self.load_arguments
        file = find_data_file(arguments["path"], arguments.get("name"), _EXTENSIONS)
        return read_rows(file).where(row)


def _check_samples(samples: object) -> None:
    is_count = isinstance(samples, int) and not isinstance(samples, bool) and samples >= 1
    if samples is not None and not is_count:
        raise DataError(f"samples must be a number of rows above 0, got {samples!r}")


def _problem(row: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a row, or None."""
    for column in ("text", "label"):
        if column not in row:
            return f"no column {column!r}; the row has {', '.join(map(repr, row)) or 'none'}"
    text, label = row["text"], row["label"]
    if not isinstance(text, str):
        return f"'text' must be text, got {text!r:.80}"
    if not isinstance(label, list):
        return f"'label' must be a list of spans {_SHAPE}, got {label!r:.80}"
    for span in label:
        problem = _span_problem(span, len(text))
        if problem is not None:
            return f"span {span!r:.80}: {problem}"
    return None


def _span_problem(span: object, text_len: int) -> str | None:
    if not isinstance(span, list) or len(span) not in (2, 3):
        return f"expected {_SHAPE}"
    # bool is an int in Python, but true is no offset.
    if not all(type(item) is int for item in span):
        return f"expected whole numbers {_SHAPE}"
    start, end = span[:2]
    if start > end:
        return f"start {start} lies behind end {end}"
    if start < 0 or end > text_len:
        return f"outside the text, which has {text_len} characters"
    if span[2:] not in ([], [1]):
        return f"the third item must be 1, got {span[2]}: leave out spans that do not count"
    return None
