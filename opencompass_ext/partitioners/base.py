"""From models and datasets to tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.errors import ConfigError
from opencompass_ext.records import TaskSpec

Config = Mapping[str, Any]


class BasePartitioner(ABC):
    """Cuts the work of one stage into tasks: each holds one model and some datasets."""

    @abstractmethod
    def split(self, datasets: Sequence[Config]) -> list[list[Config]]:
        """Return the datasets of one model, grouped into tasks."""

    def partition(
        self,
        models: Sequence[Config],
        datasets: Sequence[Config],
        *,
        task_type: str,
        run_folder: str,
        model_dataset_combinations: Sequence[Mapping[str, Sequence[Config]]] | None = None,
        options: Mapping[str, Any] | None = None,
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
                datasets=tuple(part),
                run_folder=run_folder,
                options=dict(options or {}),
            )
            for model, its_datasets in pairs
            for part in self.split(its_datasets)
        ]


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
