"""What a run is going to do: the tasks of each stage, and who carries them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opencompass_ext.errors import ConfigError
from opencompass_ext.outputs import RunFolder, journal_path
from opencompass_ext.records import TaskSpec
from opencompass_ext.registry import PARTITIONERS, RUNNERS
from opencompass_ext.runners import BaseRunner
from opencompass_ext.runners.base import split_pairs
from opencompass_ext.tasks.base import task_class

_DEFAULT_TASKS = {"infer": "OpenICLInferTask", "eval": "OpenICLEvalTask"}


class Stage(NamedTuple):
    """The tasks of one stage, in order, and the runner for them."""

    name: str
    runner: BaseRunner
    tasks: list[TaskSpec]


def plan_stage(
    config: Mapping[str, Any], name: str, folder: RunFolder, *, debug: bool = False
) -> Stage:
    """Return the tasks and the runner of one stage.

    What the config leaves out is one dataset per task, one worker, and the usual task class.

    Args:
        config: The loaded config.
        name: ``"infer"`` or ``"eval"``.
        folder: The run folder that the tasks are to use.
        debug: Run in this process, whatever the config says.

    Raises:
        ConfigError: The config names an unknown class, or the pairs are not distinct.
    """
    section = config.get(name) or {}
    runner_cfg = dict(section.get("runner") or {})
    if debug:
        runner_cfg["debug"] = True
    runner: BaseRunner = RUNNERS.build(runner_cfg, type="LocalRunner")
    options = dict(runner.task)
    task_type = options.pop("type", _DEFAULT_TASKS[name])
    task_class(task_type)
    partitioner = PARTITIONERS.build(section.get("partitioner") or {}, type="NaivePartitioner")
    tasks = partitioner.partition(
        config["models"],
        config["datasets"],
        task_type=task_type,
        run_folder=str(folder.root),
        model_dataset_combinations=config.get("model_dataset_combinations"),
        options=options,
    )
    if not tasks:
        counts = f"{len(config['models'])} models and {len(config['datasets'])} datasets"
        raise ConfigError(f"nothing to run: the config has {counts}")
    return Stage(name, runner, tasks)


def describe(stages: Sequence[Stage], folder: RunFolder, *, with_summary: bool) -> str:
    """Return the plan as text: every task with its GPUs and what an earlier run left of it."""
    lines = [f"run folder: {folder.root}"]
    for stage in stages:
        pairs = split_pairs(stage.tasks)
        where = "in this process" if stage.runner.debug else "in worker processes"
        lines.append(
            f"{stage.name}: {len(stage.tasks)} tasks, {len(pairs)} pairs of model and dataset, by "
            f"{type(stage.runner).__name__} {where}, {stage.runner.max_num_workers} at a time"
        )
        for task in stage.tasks:
            gpus = task_class(task.type).num_gpus(task)
            lines.append(f"  {task.name}, model {task.model['abbr']}, GPUs: {gpus}")
            for dataset in task.datasets:
                state = _state(folder, stage.name, task.model["abbr"], dataset["abbr"])
                lines.append(f"    dataset {dataset['abbr']}: {state}")
    if with_summary:
        lines.append(f"summary: {folder.summary('<time>', '{txt,csv,md}')}")
    lines.append("nothing was run or written (--dry-run)")
    return "\n".join(lines)


def _state(folder: RunFolder, stage: str, model: str, dataset: str) -> str:
    predictions = folder.predictions(model, dataset)
    if stage == "eval":
        exists = folder.results(model, dataset).exists()
        return "results exist and are made anew" if exists else "new"
    journal = journal_path(predictions)
    if journal.exists():
        with open(journal, "rb") as file:
            return f"unfinished, {sum(1 for _ in file)} rows are kept"
    return (
        "predictions exist, used where data and model are the same"
        if predictions.exists()
        else "new"
    )
