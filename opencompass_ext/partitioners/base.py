"""From models and datasets to tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from opencompass_ext.errors import ConfigError
from opencompass_ext.partitioners.cutting import cut_evenly
from opencompass_ext.partitioners.sizes import Measure, Size
from opencompass_ext.records import RowRange, TaskSpec

Config = Mapping[str, Any]

# Of a dataset shared out over several processes, none gets fewer rows than this.
_LEAST_ROWS_PER_PROCESS = 16


class Piece(NamedTuple):
    """A dataset, or some of its rows.

    Attributes:
        dataset: Its config.
        rows: The rows; None for all.
    """

    dataset: Config
    rows: RowRange | None = None


class Divisible(NamedTuple):
    """A dataset that is about to be divided.

    Attributes:
        dataset: Its config.
        size: How large it is; None when that is not known, and its task will say why.
        may_cut: Whether its rows may go to different tasks.
    """

    dataset: Config
    size: Size | None
    may_cut: bool


def never(dataset: Config) -> bool:
    """Return False: no dataset may be cut."""
    return False


class BasePartitioner(ABC):
    """Cuts the work of one stage into tasks: each holds one model and some datasets.

    Attributes:
        needs_sizes: Whether ``split`` looks at sizes.
        dataset_size_path: Where sizes are remembered; None for the default place.
        force_rebuild: Whether remembered sizes are not used.
    """

    needs_sizes = False
    dataset_size_path: str | None = None
    force_rebuild = False

    @abstractmethod
    def split(self, datasets: Sequence[Divisible]) -> list[list[Piece]]:
        """Return the datasets of one model, or parts of them, grouped into tasks."""

    def partition(
        self,
        models: Sequence[Config],
        datasets: Sequence[Config],
        *,
        task_type: str,
        run_folder: str,
        model_dataset_combinations: Sequence[Mapping[str, Sequence[Config]]] | None = None,
        options: Mapping[str, Any] | None = None,
        measure: Measure | None = None,
        may_cut: Callable[[Config], bool] = never,
    ) -> list[TaskSpec]:
        """Return the tasks, in config order: all of the first model, then the next.

        Args:
            models: Model configs.
            datasets: Dataset configs, each run with every model.
            task_type: Registered name of the task class.
            run_folder: Folder of the run.
            model_dataset_combinations: Instead of all pairs, ``{"models": [...], "datasets":
                [...]}`` groups of which all pairs are run.
            options: Further keyword arguments of the task class.
            measure: Gives the sizes of datasets; None when nothing may be cut.
            may_cut: Whether the rows of a dataset may go to different tasks.

        Raises:
            ConfigError: Two models, or two datasets of one model, have the same abbr: they would
                write the same files.
        """
        groups = model_dataset_combinations or [{"models": models, "datasets": datasets}]
        pairs = [(model, group["datasets"]) for group in groups for model in group["models"]]
        _check_distinct(pairs)
        return [
            TaskSpec(
                type=task_type,
                model=model,
                datasets=tuple(piece.dataset for piece in part),
                run_folder=run_folder,
                options=dict(options or {}),
                rows=_rows(part),
            )
            for model, its_datasets in pairs
            for part in self._parts(model, its_datasets, measure, may_cut)
        ]

    def _parts(
        self,
        model: Config,
        datasets: Sequence[Config],
        measure: Measure | None,
        may_cut: Callable[[Config], bool],
    ) -> list[list[Piece]]:
        processes = int(model.get("run_cfg", {}).get("num_procs", 1))
        cuttable = [may_cut(dataset) for dataset in datasets]
        needs_sizes = self.needs_sizes or (processes > 1 and any(cuttable))
        sizes: Sequence[Size | None] = [None] * len(datasets)
        if needs_sizes and measure is not None:
            sizes = measure(datasets)
        parts = self.split([Divisible(*d) for d in zip(datasets, sizes, cuttable, strict=True)])
        if processes == 1:
            return parts
        size_of = {dataset["abbr"]: size for dataset, size in zip(datasets, sizes, strict=True)}
        cut_of = {dataset["abbr"]: cut for dataset, cut in zip(datasets, cuttable, strict=True)}
        return [
            [part]
            for task in parts
            for piece in task
            for part in _shared_out(
                piece, processes, size_of[piece.dataset["abbr"]], cut_of[piece.dataset["abbr"]]
            )
        ]


def _shared_out(piece: Piece, processes: int, size: Size | None, may_cut: bool) -> list[Piece]:
    """Return the piece cut for so many worker processes of one model."""
    if size is None or not may_cut:
        return [piece]
    rows = piece.rows or RowRange(0, size.rows, size.rows)
    count = min(processes, (rows.stop - rows.start) // _LEAST_ROWS_PER_PROCESS)
    if count < 2:
        return [piece]
    return [Piece(piece.dataset, part) for part in cut_evenly(rows, count)]


def _rows(part: Sequence[Piece]) -> tuple[RowRange | None, ...]:
    rows = tuple(piece.rows for piece in part)
    return rows if any(rows) else ()


def _check_distinct(pairs: Sequence[tuple[Config, Sequence[Config]]]) -> None:
    seen: set[tuple[str, str]] = set()
    for model, datasets in pairs:
        for dataset in datasets:
            pair = (model["abbr"], dataset["abbr"])
            if pair in seen:
                raise ConfigError(
                    f"model {pair[0]!r} meets dataset {pair[1]!r} twice, and both would write the "
                    "same files: give each model and each dataset an abbr of its own"
                )
            seen.add(pair)
