"""What a data set class is: how to load rows, and a reader over them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from opencompass_ext.datasets.reader import DatasetReader
from opencompass_ext.datasets.row_files import RowCount
from opencompass_ext.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


class BaseDataset:
    """Base of the data set classes: a subclass says in ``load`` where the rows come from.

    Args:
        reader_cfg: Arguments of ``DatasetReader``: which columns, splits and rows are read.
        limit: At most this many test rows, or groups of rows where the class has a
            ``group_column``.
        **load_arguments: Arguments of ``load``: every other key of the config.

    Raises:
        ConfigError: A key that neither ``load`` nor ``DatasetReader`` knows, or one that is
            missing.
        DataError: The data cannot be read.

    Example:
        >>> class Squares(BaseDataset):
        ...     @staticmethod
        ...     def load(count):
        ...         from datasets import Dataset
        ...
        ...         return Dataset.from_dict({"n": [n * n for n in range(count)]})
        >>> Squares(count=5, reader_cfg=dict(test_range="[1:3]")).test["n"][:]
        [1, 4]
    """

    # Ranges and limits count groups of rows with the same value here; see ``DatasetReader``.
    group_column: ClassVar[str | None] = None
    # What people think of a row. No model reads these columns: predictions stay right when they
    # change.
    label_columns: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        reader_cfg: Mapping[str, Any] | None = None,
        limit: int | None = None,
        **load_arguments: Any,
    ) -> None:
        from datasets import Dataset, DatasetDict

        kind = type(self).__name__
        _check_arguments(kind, inspect.signature(self.load), load_arguments)
        reader_arguments = dict(reader_cfg or {})
        _check_arguments(f"reader_cfg of {kind}", _READER_KEYS, reader_arguments)
        self.load_arguments = load_arguments
        dataset = self.load(**load_arguments)
        if not isinstance(dataset, (Dataset, DatasetDict)):
            raise TypeError(
                f"{kind}.load must return a datasets.Dataset or DatasetDict, "
                f"got {type(dataset).__name__}: Dataset.from_list(rows) makes one"
            )
        self.reader = DatasetReader(
            dataset,
            limit=limit,
            where=self.where,
            group_column=self.group_column,
            **reader_arguments,
        )

    @staticmethod
    def load(**kwargs: Any) -> Dataset | DatasetDict:
        """Return the rows; the arguments are the keys of the data set's config."""
        raise NotImplementedError

    @classmethod
    def count(cls, **load_arguments: Any) -> RowCount | None:
        """Return how many rows ``load`` gives, if that takes no table library; else None.

        A run that cuts datasets into parts asks this first, with the arguments of ``load``.
        """
        return None

    def where(self, row: int) -> str:
        """Return the place of row ``row``, counted from 0 in the data, for an error message."""
        return f"row {row} (counted from 0)"

    @property
    def train(self) -> Dataset:
        """The rows that in-context examples are taken from."""
        return self.reader.train

    @property
    def test(self) -> Dataset:
        """The rows that are evaluated."""
        return self.reader.test


def _reader_keys() -> inspect.Signature:
    signature = inspect.signature(DatasetReader)
    given_here = ("dataset", "limit", "where", "group_column")
    return signature.replace(
        parameters=[p for p in signature.parameters.values() if p.name not in given_here]
    )


_READER_KEYS = _reader_keys()


def _check_arguments(kind: str, accepted: inspect.Signature, given: Mapping[str, Any]) -> None:
    parameters = list(accepted.parameters.values())
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    if len(known) == len(parameters):
        for name in given:
            if name not in known:
                raise ConfigError(f"{kind} has no key {name!r}: {did_you_mean(name, known)}")
    for parameter in parameters:
        needed = parameter.default is parameter.empty and parameter.name in known
        if needed and parameter.name not in given:
            raise ConfigError(f"{kind} needs the key {parameter.name!r}")
