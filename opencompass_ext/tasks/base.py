"""What all tasks have in common: their place in a run, the model they share, the dataset."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from opencompass_ext.errors import ConfigError, ModelError, ModelLoadError
from opencompass_ext.outputs import RunFolder
from opencompass_ext.records import TaskSpec
from opencompass_ext.registry import DATASETS, MODELS, TASKS
from opencompass_ext.schema import keys

if TYPE_CHECKING:
    from opencompass_ext.models import BaseModel

# Called with rows done, rows in all, and tokens done since the task began.
ReportProgress = Callable[[int, int, int], None]

# Keys of a dataset that its class does not take.
STAGE_KEYS = frozenset(keys.dataset(needs_evaluator=False).known)


class ModelCache:
    """Holds the model of the last task, so that the next one need not load it again."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._model: BaseModel | None = None

    def get(self, config: Mapping[str, Any]) -> BaseModel:
        """Return the model for ``config``; one made for another config is let go first.

        Raises:
            ModelLoadError: There is no such model.
        """
        arguments = {k: v for k, v in config.items() if k not in keys.MODEL.known}
        key = json.dumps(arguments, sort_keys=True)
        if self._model is None or key != self._key:
            self._model = None
            try:
                self._model = MODELS.build(arguments)
            except ModelError as error:
                raise ModelLoadError(str(error)) from error
            self._key = key
        return self._model


def task_class(name: str) -> type[BaseTask]:
    """Return the task class of that name.

    Raises:
        ConfigError: There is none, or it is no task.
    """
    cls = TASKS.get(name)
    if not issubclass(cls, BaseTask):
        raise ConfigError(f"{name!r} is no task class: it must derive from BaseTask")
    return cls


class BaseTask(ABC):
    """One model on one dataset, or on some of its rows, at one stage.

    Args:
        spec: The task; it has exactly one dataset.

    Attributes:
        stage: ``"infer"`` or ``"eval"``: which folder of logs is the task's.
        rows: The rows of the dataset that are meant, None for all.
    """

    stage: ClassVar[str]

    def __init__(self, spec: TaskSpec) -> None:
        self.spec = spec
        self.model = spec.model
        ((self.dataset, self.rows),) = spec.pieces
        self.run_folder = RunFolder(spec.run_folder)

    @classmethod
    def num_gpus(cls, spec: TaskSpec) -> int:
        """Return how many GPUs a worker needs for the task."""
        return spec.num_gpus

    @classmethod
    def worker_group(cls, spec: TaskSpec) -> str:
        """Return a key that is equal for tasks that one worker process can do one after another."""
        return json.dumps(spec.model, sort_keys=True)

    @classmethod
    def may_cut(cls, dataset: Mapping[str, Any]) -> bool:
        """Return whether several tasks may share the rows of a dataset."""
        return False

    @property
    def log(self) -> Path:
        """Where the output of the task goes."""
        rows = self.rows and (self.rows.start, self.rows.stop)
        return self.run_folder.log(self.stage, self.model["abbr"], self.dataset["abbr"], rows)

    @abstractmethod
    def run(self, report: ReportProgress, models: ModelCache) -> str:
        """Do the work; return ``"done"``, or ``"reused"`` when an earlier run had done it all.

        Args:
            report: To be called after each batch is safe on disk. May raise to end the task.
            models: Where to get the model from.
        """

    def section(self, name: str, key: str) -> Mapping[str, Any]:
        """Return ``dataset[name][key]``, a config with a ``type``.

        Raises:
            ConfigError: It is not there.
        """
        section = self.dataset.get(name) or {}
        if key not in section:
            raise ConfigError(
                f"dataset {self.dataset['abbr']!r}: {name} needs the key {key!r}, "
                f"got {sorted(section)}"
            )
        return section[key]


def build_dataset(config: Mapping[str, Any]) -> Any:
    """Build a dataset from its config."""
    return DATASETS.build({k: v for k, v in config.items() if k not in STAGE_KEYS})
