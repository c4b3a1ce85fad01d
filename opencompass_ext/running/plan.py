"""What a run is going to do: the tasks of each stage, and who carries them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opencompass_ext.errors import ConfigError
from opencompass_ext.outputs import RunFolder, journal_path, parts_on_disk
from opencompass_ext.partitioners.sizes import Size, SizeBook
from opencompass_ext.predictions.journal import whole_rows
from opencompass_ext.records import RowRange, TaskSpec
from opencompass_ext.registry import PARTITIONERS, RUNNERS
from opencompass_ext.runners import BaseRunner
from opencompass_ext.runners.pairs import split_pairs
from opencompass_ext.schema.keys import DEFAULT_PARTITIONER, DEFAULT_RUNNER, DEFAULT_TASKS
from opencompass_ext.tasks.base import task_class
from opencompass_ext.words import counted


class Stage(NamedTuple):
    """The tasks of one stage, in order, the runner for them, and the sizes of the datasets."""

    name: str
    runner: BaseRunner
    tasks: list[TaskSpec]
    sizes: SizeBook


def plan_stage(
    config: Mapping[str, Any],
    name: str,
    folder: RunFolder,
    *,
    debug: bool = False,
    dry_run: bool = False,
) -> Stage:
    """Return the tasks and the runner of one stage.

    What the config leaves out is one dataset per task, one worker, and the usual task class.

    Args:
        config: The loaded config.
        name: ``"infer"`` or ``"eval"``.
        folder: The run folder that the tasks are to use.
        debug: Run in this process, whatever the config says.
        dry_run: Write nothing, not even what is remembered of the sizes of datasets.

    Raises:
        ConfigError: The config names an unknown class, or the pairs are not distinct.
    """
    section = config.get(name) or {}
    runner_cfg = dict(section.get("runner") or {})
    if debug:
        runner_cfg["debug"] = True
    runner: BaseRunner = RUNNERS.build(runner_cfg, type=DEFAULT_RUNNER)
    options = dict(runner.task)
    task_type = options.pop("type", DEFAULT_TASKS[name])
    partitioner = PARTITIONERS.build(section.get("partitioner") or {}, type=DEFAULT_PARTITIONER)
    for group in config.get("model_dataset_combinations") or [config]:
        for model in group["models"]:
            _check_processes(model)
    cache = partitioner.dataset_size_path
    sizes = SizeBook(
        folder.size_cache if cache is None else Path(cache),
        is_rebuilding=partitioner.force_rebuild,
        is_read_only=dry_run,
    )
    tasks = partitioner.partition(
        config["models"],
        config["datasets"],
        task_type=task_type,
        run_folder=str(folder.root),
        model_dataset_combinations=config.get("model_dataset_combinations"),
        options=options,
        measure=sizes,
        may_cut=task_class(task_type).may_cut,
    )
    if not tasks:
        counts = f"{len(config['models'])} models and {len(config['datasets'])} datasets"
        raise ConfigError(f"nothing to run: the config has {counts}")
    return Stage(name, runner, tasks, sizes)


def _check_processes(model: Mapping[str, Any]) -> None:
    run_cfg = model.get("run_cfg") or {}
    num_gpus, num_procs = int(run_cfg.get("num_gpus", 0)), int(run_cfg.get("num_procs", 1))
    if num_gpus % num_procs:
        raise ConfigError(
            f"model {model['abbr']!r}: its num_gpus = {num_gpus} cannot be shared out evenly to "
            f"num_procs = {num_procs} processes: num_gpus counts the GPUs of all of them together"
        )


def describe(stages: Sequence[Stage], folder: RunFolder, *, with_summary: bool) -> str:
    """Return the plan as text: every task with its size, its GPUs, its command, and what is there.

    What is there is what an earlier run left of a dataset.
    """
    lines = [f"run folder: {folder.root}"]
    for stage in stages:
        # Those of the first stage: the second would read all datasets again.
        lines += _describe_stage(stage, folder, stages[0].sizes)
    if with_summary:
        lines.append(f"summary: {folder.summary('<time>', '{txt,csv,md}')}")
    lines.append("nothing was run or written (--dry-run)")
    return "\n".join(lines)


def _describe_stage(stage: Stage, folder: RunFolder, sizes: SizeBook) -> list[str]:
    pairs = split_pairs(stage.tasks)
    where = " in this process" if stage.runner.debug else ""
    lines = [
        f"{stage.name}: {counted(len(stage.tasks), 'task')}, "
        f"{counted(len(pairs), 'pair')} of model and dataset, by "
        f"{type(stage.runner).__name__}{where}, {stage.runner.max_num_workers} at a time"
    ]
    for task in stage.tasks:
        found = sizes(task.datasets)
        known = [_of_rows(s, rows) for s, (_, rows) in zip(found, task.pieces, strict=True) if s]
        rows, tokens = (sum(column) for column in zip((0, 0), *known, strict=True))
        gpus = task_class(task.type).num_gpus(task)
        size = f"{rows:,} rows" + (f", about {tokens:,} tokens" if stage.name == "infer" else "")
        if len(known) < len(found):
            size += " and what cannot be told"
        lines.append(
            f"  {task.name}, model {task.model['abbr']}, GPUs: {gpus}, {size}\n"
            f"    command: {stage.runner.command(task)}"
        )
        for dataset, part in task.pieces:
            state = _state(folder, stage.name, task.model["abbr"], dataset["abbr"], part)
            reason = sizes.reasons.get(dataset["abbr"])
            size = f"; its size cannot be told: {reason}" if reason else ""
            lines.append(f"    dataset {dataset['abbr']}{part or ''}: {state}{size}")
    return lines


def _of_rows(size: Size, rows: RowRange | None) -> Size:
    if rows is None:
        return size
    count = rows.stop - rows.start
    return Size(count, size.tokens * count // rows.total)


def _state(folder: RunFolder, stage: str, model: str, dataset: str, rows: RowRange | None) -> str:
    predictions = folder.predictions(model, dataset)
    if stage == "eval":
        exists = folder.results(model, dataset).exists()
        return "results exist and are made anew" if exists else "new"
    if journal_path(predictions).exists() or parts_on_disk(predictions):
        kept = _kept_rows(predictions)
        meant = kept if rows is None else kept & set(range(rows.start, rows.stop))
        return f"unfinished, {counted(len(meant), 'row')} kept"
    if predictions.exists():
        return "predictions exist, used where data and model are the same"
    return "new"


def _kept_rows(predictions: Path) -> set[int]:
    """Return the numbers of the rows that an earlier run has finished of an unfinished file."""
    parts = parts_on_disk(predictions)
    kept = {i for path, span in parts.items() if path.exists() for i in range(*span)}
    return kept.union(*(whole_rows(journal_path(path)) for path in (predictions, *parts)))
