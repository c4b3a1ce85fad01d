"""A fixed number of datasets per task."""

from __future__ import annotations

from collections.abc import Sequence

from opencompass_ext.errors import ConfigError
from opencompass_ext.partitioners.base import BasePartitioner, Config
from opencompass_ext.registry import PARTITIONERS


@PARTITIONERS.register_module()
class NaivePartitioner(BasePartitioner):
    """Puts ``n`` datasets of a model into each task, in config order; never cuts a dataset.

    Args:
        n: Datasets per task.

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

    def __init__(self, n: int = 1) -> None:
        if not isinstance(n, int) or n < 1:
            raise ConfigError(
                f"NaivePartitioner: n must be a whole number of at least 1, got {n!r}"
            )
        self.n = n

    def split(self, datasets: Sequence[Config]) -> list[list[Config]]:
        """Return slices of ``n`` datasets."""
        return [list(datasets[i : i + self.n]) for i in range(0, len(datasets), self.n)]
