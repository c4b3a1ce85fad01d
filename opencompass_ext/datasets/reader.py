"""The rows and columns of a data set that a run reads: ``reader_cfg`` of a config."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opencompass_ext.datasets.ranges import select_rows
from opencompass_ext.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


class MissingValueError(DataError):
    """A row has no value in a column that is read.

    Attributes:
        column: The column.
    """

    def __init__(self, where: str, column: str) -> None:
        super().__init__(
            f"{where}: no value in column {column!r}, which reader_cfg -> input_columns asks for"
        )
        self.column = column


class DatasetReader:
    """Splits, rows and columns of a loaded data set.

    Args:
        dataset: The data; a ``Dataset`` without splits serves as training and as test split.
        input_columns: Columns that templates may use, as a list or as names separated by blanks;
            None for all. A row that is read must have a value in each.
        output_column: Column with the reference answers, if there is one.
        train_split: Split that in-context examples are taken from.
        test_split: Split that is evaluated.
        train_range: Rows of the training split, see ``ranges.select_rows``.
        test_range: Rows of the test split, likewise.
        limit: At most this many rows of the test split, the first of those that ``test_range``
            leaves.
        where: Gives the place of a row, by its index in the data, for error messages.
        group_column: Rows that follow one another with the same value in this column belong
            together, as the answers to one question do: ranges and ``limit`` count such groups
            and never cut one apart. None: every row stands for itself.

    Raises:
        ConfigError: An argument has the wrong form, a column is not there, or a range is empty.
        MissingValueError: A row has no value in a column that is read.
    """

    def __init__(
        self,
        dataset: Dataset | DatasetDict,
        input_columns: Sequence[str] | str | None = None,
        output_column: str | None = None,
        train_split: str = "train",
        train_range: int | float | str | None = None,
        test_split: str = "test",
        test_range: int | float | str | None = None,
        limit: int | None = None,
        where: Callable[[int], str] = "row {}".format,
        group_column: str | None = None,
    ) -> None:
        if isinstance(input_columns, str):
            input_columns = input_columns.split()
        if limit is not None and (not isinstance(limit, int) or limit is True or limit < 1):
            raise ConfigError(f"limit must be a number of rows above 0, got {limit!r}")
        # Columns that nobody asked for by name may have gaps.
        self._asked_for = list(input_columns or [])
        self.output_column = output_column
        self._dataset = dataset
        self._train = (train_split, train_range)
        self._where = where
        self._group_column = group_column
        self.test = self._read("test", test_split, test_range, limit)
        self.input_columns = self._asked_for or [
            column for column in self.test.column_names if column != output_column
        ]

    @cached_property
    def train(self) -> Dataset:
        """The rows that in-context examples are taken from."""
        return self._read("train", *self._train)

    @property
    def references(self) -> list[Any] | None:
        """The reference answers of the test rows, or None without an ``output_column``."""
        return None if self.output_column is None else list(self.test[self.output_column])

    @property
    def dataset(self) -> DatasetDict:
        """Both splits, named ``train`` and ``test``, as OpenCompass's readers hold them."""
        from datasets import DatasetDict

        return DatasetDict(train=self.train, test=self.test)

    def _read(
        self, use: str, split: str, rows: int | float | str | None, limit: int | None = None
    ) -> Dataset:
        dataset = self._split(use, split)
        selected = self._select(use, dataset, rows, limit)
        self._check_columns(dataset.column_names)
        if not (isinstance(selected, range) and len(selected) == len(dataset)):
            dataset = dataset.select(selected)
        self._check_values(dataset, selected)
        return dataset

    def _select(
        self, use: str, dataset: Dataset, rows: int | float | str | None, limit: int | None
    ) -> Sequence[int]:
        """Return the indices of the rows that a range and a limit leave."""
        column = self._group_column
        groups = None if column is None else _consecutive_groups(dataset[column][:])
        total = len(dataset) if groups is None else len(groups)
        try:
            selected = select_rows(total, rows)
        except ConfigError as error:
            raise ConfigError(f"{use}_range: {error}") from error
        if limit is not None:
            selected = selected[:limit]
        if groups is None:
            return selected
        return [row for group in selected for row in groups[group]]

    def _split(self, use: str, split: str) -> Dataset:
        from datasets import Dataset

        if isinstance(self._dataset, Dataset):
            return self._dataset
        if split in self._dataset:
            return self._dataset[split]
        known = list(self._dataset)
        raise ConfigError(
            f"the data has no split {split!r} (key reader_cfg -> {use}_split): "
            f"{did_you_mean(split, known)}"
        )

    def _check_columns(self, known: list[str]) -> None:
        wanted = [("input_columns", column) for column in self._asked_for]
        if self.output_column is not None:
            wanted.append(("output_column", self.output_column))
        for key, column in wanted:
            if column not in known:
                raise ConfigError(
                    f"the data has no column {column!r} (key reader_cfg -> {key}): "
                    f"{did_you_mean(str(column), known)}"
                )

    def _check_values(self, dataset: Dataset, selected: Sequence[int]) -> None:
        if not self._asked_for:
            return
        table = dataset.select_columns(self._asked_for).with_format("arrow")[:]
        for column in self._asked_for:
            values = table.column(column)
            if values.null_count:
                row = selected[values.is_null().to_pylist().index(True)]
                raise MissingValueError(self._where(row), column)


def _consecutive_groups(values: Sequence[Any]) -> list[range]:
    """Return the row ranges in which a value does not change, in order."""
    starts = [i for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
    return [range(a, b) for a, b in zip(starts, [*starts[1:], len(values)], strict=True)]
