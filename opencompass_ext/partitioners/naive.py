"""A fixed number of datasets per task."""

from __future__ import annotations

from collections.abc import Sequence

from opencompass_ext.checks import check_least
from opencompass_ext.partitioners.base import BasePartitioner, Divisible, Piece
from opencompass_ext.registry import PARTITIONERS


@PARTITIONERS.register_module()
class NaivePartitioner(BasePartitioner):
    """Puts ``n`` datasets of a model into each task, in config order; never cuts a dataset.

    Args:
        n: Datasets per task.
        keep_keys: Part of OpenCompass's call; a task holds its model and datasets and nothing else
            of the config.

    Example:
        >>> tasks = NaivePartitioner(n=2).partition(
        ...     [{"abbr": "m"}],
        ...     [{"abbr": "a"}, {"abbr": "b"}, {"abbr": "c"}],
        ...     task_type="OpenICLInferTask",
        ...     run_folder="outputs/20260101_120000",
        ... )
        >>> [task.name for task in tasks]
        ['OpenICLInfer[m/a,m/b]', 'OpenICLInfer[m/c]']
    """

    def __init__(self, n: int = 1, keep_keys: Sequence[str] | None = None) -> None:
        check_least(1, of="NaivePartitioner", n=n)
        self.n = n
        self.keep_keys = keep_keys

    def split(self, datasets: Sequence[Divisible]) -> list[list[Piece]]:
        """Return slices of ``n`` datasets."""
        pieces = [Piece(dataset.dataset) for dataset in datasets]
        return [pieces[i : i + self.n] for i in range(0, len(pieces), self.n)]
