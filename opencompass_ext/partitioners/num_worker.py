"""As many tasks per model as there are workers."""

from __future__ import annotations

from collections.abc import Sequence

from opencompass_ext.checks import check_least
from opencompass_ext.partitioners.base import BasePartitioner, Divisible, Piece
from opencompass_ext.partitioners.cutting import check_strategy, cut_by_length
from opencompass_ext.registry import PARTITIONERS


@PARTITIONERS.register_module()
class NumWorkerPartitioner(BasePartitioner):
    """Cuts large datasets into parts and deals all out to ``num_worker`` tasks per model.

    A dataset of at most ``min_task_size`` rows stays whole. A larger one is cut into ``num_split``
    parts of equal length, or into fewer when they would be shorter than ``min_task_size``.

    Args:
        num_worker: Tasks per model.
        num_split: Parts per dataset; None for ``num_worker``, 1 for no cuts.
        min_task_size: Least rows of a part.
        strategy: ``"heuristic"`` deals the parts out in turn, in config order; ``"split"`` makes a
            task of each part.
        dataset_size_path: File that remembers the sizes of datasets; None for
            ``<work_dir>/.cache/dataset_size.json``.
        keep_keys: Part of OpenCompass's call, see ``NaivePartitioner``.
        force_rebuild: Measure all datasets anew.

    Raises:
        ConfigError: An argument has a value it cannot have.
    """

    needs_sizes = True

    def __init__(
        self,
        num_worker: int = 8,
        num_split: int | None = None,
        min_task_size: int = 16,
        strategy: str = "heuristic",
        dataset_size_path: str | None = None,
        keep_keys: Sequence[str] | None = None,
        force_rebuild: bool = False,
    ) -> None:
        num_split = num_worker if num_split is None else num_split
        kind = type(self).__name__
        check_least(
            1, of=kind, num_worker=num_worker, num_split=num_split, min_task_size=min_task_size
        )
        check_strategy(kind, strategy)
        self.num_worker = num_worker
        self.num_split = num_split
        self.min_task_size = min_task_size
        self.strategy = strategy
        self.dataset_size_path = dataset_size_path
        self.keep_keys = keep_keys
        self.force_rebuild = force_rebuild

    def split(self, datasets: Sequence[Divisible]) -> list[list[Piece]]:
        """Return the tasks of one model."""
        pieces = [piece for dataset in datasets for piece in self._pieces(dataset)]
        if self.strategy == "split":
            return [[piece] for piece in pieces]
        count = min(self.num_worker, len(pieces))
        return [pieces[i :: self.num_worker] for i in range(count)]

    def _pieces(self, dataset: Divisible) -> list[Piece]:
        size = dataset.size
        is_small = size is None or size.rows <= self.min_task_size
        if is_small or self.num_split == 1 or not dataset.may_cut:
            return [Piece(dataset.dataset)]
        assert size is not None
        length = max(-(-size.rows // self.num_split), self.min_task_size)
        parts = cut_by_length(size.rows, length)
        return [Piece(dataset.dataset, rows if len(parts) > 1 else None) for rows in parts]
