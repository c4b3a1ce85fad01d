"""Tasks of one model and one dataset, or part of it: what is handed to a worker at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from opencompass_ext.outputs import RunFolder, rows_path
from opencompass_ext.records import TaskSpec
from opencompass_ext.tasks.base import task_class


def split_pairs(tasks: Sequence[TaskSpec]) -> list[TaskSpec]:
    """Return one task per pair of model and dataset, or of model and part of a dataset.

    Example:
        >>> spec = TaskSpec("T", {"abbr": "m"}, ({"abbr": "a"}, {"abbr": "b"}), "outputs/x")
        >>> [pair.name for pair in split_pairs([spec])]
        ['T[m/a]', 'T[m/b]']
    """
    return [
        dataclasses.replace(task, datasets=(dataset,), rows=(rows,) if rows else ())
        for task in tasks
        for dataset, rows in task.pieces
    ]


def has_output(pair: TaskSpec) -> bool:
    """Return whether an earlier run has left predictions of a task of one pair."""
    ((dataset, rows),) = pair.pieces
    whole = RunFolder(pair.run_folder).predictions(pair.model["abbr"], dataset["abbr"])
    return whole.exists() or (rows is not None and rows_path(whole, *rows[:2]).exists())


def log_path(pair: TaskSpec) -> str:
    """Return where the output of a task of one pair goes."""
    return str(task_class(pair.type)(pair, **pair.options).log)
