"""What a config may leave out, filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opencompass_ext.config.plain import SECTIONS
from opencompass_ext.schema.abbr import dataset_abbr, model_abbr
from opencompass_ext.schema.keys import (
    DEFAULT_PARTITIONER,
    DEFAULT_RUNNER,
    DEFAULT_SUMMARIZER,
    DEFAULT_TASKS,
)


def complete_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a checked config, with nothing left out and no helper variables.

    Every model and dataset has its ``abbr``. ``infer`` and ``eval`` have a partitioner
    (``NaivePartitioner``), a runner (``LocalRunner``) and its task; ``summarizer`` has its type.

    Example:
        >>> config = complete_config({"models": [], "datasets": [], "helper": 1})
        >>> sorted(config)
        ['datasets', 'eval', 'infer', 'models', 'summarizer']
        >>> config["eval"]["runner"]
        {'type': 'LocalRunner', 'task': {'type': 'OpenICLEvalTask'}}
    """
    complete = {section: config[section] for section in SECTIONS if config.get(section) is not None}
    complete |= _named(config)
    if "model_dataset_combinations" in complete:
        groups = complete["model_dataset_combinations"]
        complete["model_dataset_combinations"] = [_named(group) for group in groups]
    for stage, task_type in DEFAULT_TASKS.items():
        given = complete.get(stage, {})
        runner = given.get("runner") or {}
        task = {"type": task_type, **(runner.get("task") or {})}
        complete[stage] = {
            "partitioner": {"type": DEFAULT_PARTITIONER, **(given.get("partitioner") or {})},
            "runner": {"type": DEFAULT_RUNNER, **runner, "task": task},
        }
    complete["summarizer"] = {"type": DEFAULT_SUMMARIZER, **complete.get("summarizer", {})}
    return complete


def _named(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "models": [{**model, "abbr": model_abbr(model)} for model in group["models"]],
        "datasets": [{**dataset, "abbr": dataset_abbr(dataset)} for dataset in group["datasets"]],
    }
