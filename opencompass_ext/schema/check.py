"""Whether a whole config can run: every key known, every class there, every name used once."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opencompass_ext.config.plain import SECTIONS
from opencompass_ext.config.source import locate, source_trees
from opencompass_ext.config.where import where
from opencompass_ext.errors import ConfigError
from opencompass_ext.registry import (
    DATASETS,
    EVALUATORS,
    INFERENCERS,
    JUDGES,
    MODELS,
    PARTITIONERS,
    PROMPT_TEMPLATES,
    RETRIEVERS,
    RUNNERS,
    SUMMARIZERS,
    TASKS,
)
from opencompass_ext.schema import keys
from opencompass_ext.schema.combinations import check_combinations
from opencompass_ext.schema.dicts import check_component, check_keys, check_list, is_cheap_to_build
from opencompass_ext.schema.helpers import check_helpers
from opencompass_ext.schema.problems import Problem, tell
from opencompass_ext.schema.twins import check_twins


def check_config(
    config: Mapping[str, Any],
    sources: Sequence[Path] = (),
    *,
    origin: str | None = None,
    strict: bool = True,
    mode: str = "all",
) -> list[str]:
    """Check a config that ``load_config`` returned, all of it at once.

    Known keys are those of ``schema.keys`` and the arguments of the classes that the config names,
    read from their signatures. At the top level of a file any name may stand for a helper, unless
    it looks like a misspelt section.

    Args:
        config: The config.
        sources: The files it came from; errors name the line in them where that is clear.
        origin: Where the config came from, for errors whose line is not clear; None for the files.
        strict: Whether a key that nobody reads is an error. Else it is a warning.
        mode: ``"all"``, ``"infer"``, ``"eval"`` or ``"viz"``: ``"infer"`` needs no evaluator.

    Returns:
        Warnings, one line each; always empty when strict.

    Raises:
        ConfigError: Something is wrong; one line for each thing.
    """
    return _report(problems_of(config, sources, mode), sources, origin, strict)


def check_parts(
    config: Mapping[str, Any], sources: Sequence[Path] = (), *, strict: bool = True
) -> list[str]:
    """Check a config file that others read: ``models``, ``summarizer``, all ``..._datasets``.

    Args, Returns, Raises: as ``check_config``.
    """
    return _report(_parts(config, sources), sources, None, strict)


def _report(
    problems: Iterable[Problem], sources: Sequence[Path], origin: str | None, strict: bool
) -> list[str]:
    found = list(problems)
    trees = [tree for path in sources for tree in source_trees(path)] if found else []
    unclear = ", ".join(where(path) for path in sources) if origin is None else origin

    def place(key_path: str) -> str:
        return (locate(key_path, trees) if key_path else None) or unclear

    errors = [p for p in found if strict or not p.is_unknown_key]
    if errors:
        raise ConfigError("\n".join(tell(errors, place)))
    return tell(found, place)


def problems_of(config: Mapping[str, Any], sources: Sequence[Path], mode: str) -> Iterator[Problem]:
    """Yield what is wrong with a config; see ``check_config``."""
    yield from check_helpers(config, sources)
    for section in ("models", "datasets"):
        if section not in config:
            yield Problem("", f"the config needs the list {section!r}")
    if "models" in config:
        yield from _models(config["models"], "models")
    if "datasets" in config:
        yield from _datasets(config["datasets"], "datasets", needs_evaluator=mode != "infer")
    for stage in ("infer", "eval"):
        yield from _stage(config.get(stage), stage)
    yield from _summarizer(config.get("summarizer"))
    work_dir = config.get("work_dir")
    if work_dir is not None and not (isinstance(work_dir, str) and work_dir):
        yield Problem("work_dir", f"must be the path of a folder, got {work_dir!r}")
    yield from check_twins(config)
    datasets = functools.partial(_datasets, needs_evaluator=mode != "infer")
    yield from check_combinations(config, {"models": _models, "datasets": datasets})


def _parts(config: Mapping[str, Any], sources: Sequence[Path]) -> Iterator[Problem]:
    lists_of_datasets = [name for name in config if name.endswith("_datasets")]
    yield from check_helpers(config, sources, sections=[*SECTIONS, *lists_of_datasets])
    if "models" in config:
        yield from _models(config["models"], "models")
    yield from _summarizer(config.get("summarizer"))
    if "judge" in config:
        yield from _judge(config["judge"], "judge")
    for name, value in config.items():
        if name in lists_of_datasets or name == "datasets":
            yield from _datasets(value, name, needs_evaluator=True)


def _models(models: Any, key_path: str) -> Iterator[Problem]:
    yield from check_list(models, key_path)
    for i, model in enumerate(models if isinstance(models, list) else []):
        if not isinstance(model, dict):
            continue
        path = f"{key_path}[{i}]"
        yield from check_component(model, MODELS, path, beside=keys.MODEL)
        if model.get("run_cfg") is not None:
            yield from check_keys(model["run_cfg"], keys.RUN_CFG, f"{path}.run_cfg")


def _datasets(datasets: Any, key_path: str, needs_evaluator: bool) -> Iterator[Problem]:
    yield from check_list(datasets, key_path)
    for i, dataset in enumerate(datasets if isinstance(datasets, list) else []):
        if isinstance(dataset, dict):
            yield from _dataset(dataset, f"{key_path}[{i}]", needs_evaluator)


def _dataset(dataset: Mapping[str, Any], path: str, needs_evaluator: bool) -> Iterator[Problem]:
    yield from check_component(dataset, DATASETS, path, beside=keys.dataset(needs_evaluator))
    if dataset.get("reader_cfg") is not None:
        yield from check_keys(dataset["reader_cfg"], keys.reader_cfg(), f"{path}.reader_cfg")
    infer_cfg = dataset.get("infer_cfg")
    if isinstance(infer_cfg, dict):
        yield from _infer_cfg(infer_cfg, f"{path}.infer_cfg")
    eval_cfg = dataset.get("eval_cfg")
    if isinstance(eval_cfg, dict):
        yield from check_keys(eval_cfg, keys.EVAL_CFG, f"{path}.eval_cfg")
        yield from _evaluator(eval_cfg, f"{path}.eval_cfg")


def _evaluator(eval_cfg: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from _optional(eval_cfg, "evaluator", EVALUATORS, path)
    evaluator = eval_cfg.get("evaluator")
    if isinstance(evaluator, dict) and isinstance(evaluator.get("judge_cfg"), dict):
        yield from _judge(evaluator["judge_cfg"], f"{path}.evaluator.judge_cfg")


def _judge(judge: Any, path: str) -> Iterator[Problem]:
    # The judge of an endpoint has the name of a model there, one of this machine its config.
    if isinstance(judge, dict) and isinstance(judge.get("model"), dict):
        model = check_component(judge["model"], MODELS, f"{path}.model", beside=keys.MODEL)
        if problems := list(model):
            yield from problems
            return
    yield from check_component(judge, JUDGES, path)


def _infer_cfg(infer_cfg: Mapping[str, Any], path: str) -> Iterator[Problem]:
    problems = [
        *check_keys(infer_cfg, keys.INFER_CFG, path),
        *_optional(infer_cfg, "prompt_template", PROMPT_TEMPLATES, path),
        *_optional(infer_cfg, "ice_template", PROMPT_TEMPLATES, path),
        *_optional(infer_cfg, "retriever", RETRIEVERS, path, given=keys.GIVEN_TO_RETRIEVER),
        *_optional(infer_cfg, "inferencer", INFERENCERS, path, given=keys.GIVEN_TO_INFERENCER),
    ]
    yield from problems
    if not problems:
        yield from _template(infer_cfg, path)


def _template(infer_cfg: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield what an inferencer misses of its template; both are in order taken alone."""
    inferencer = infer_cfg["inferencer"]
    cls = INFERENCERS.get(inferencer["type"])
    key = next((k for k in ("prompt_template", "ice_template") if k in infer_cfg), None)
    if key is None:
        if getattr(cls, "needs_template", True):
            yield Problem(path, "needs a 'prompt_template' (or an 'ice_template')")
        return
    columns_to_insert = getattr(cls, "columns_to_insert", None)
    if columns_to_insert is None or not is_cheap_to_build(
        PROMPT_TEMPLATES.get(infer_cfg[key]["type"])
    ):
        return
    template = PROMPT_TEMPLATES.build(infer_cfg[key])
    for column in columns_to_insert(inferencer):
        if not template.inserts(column):
            yield Problem(
                f"{path}.{key}.template",
                f"must insert {{{column}}}, which {cls.__name__} looks for, got "
                f"{template.template!r:.80}",
            )


def _stage(stage: Any, name: str) -> Iterator[Problem]:
    if stage is None:
        return
    yield from check_keys(stage, keys.STAGE, name)
    if not isinstance(stage, dict):
        return
    partitioner = _with_type(stage.get("partitioner"), keys.DEFAULT_PARTITIONER)
    yield from check_component(partitioner, PARTITIONERS, f"{name}.partitioner")
    runner = _with_type(stage.get("runner"), keys.DEFAULT_RUNNER)
    yield from check_component(runner, RUNNERS, f"{name}.runner", beside=keys.RUNNER)
    if isinstance(runner, dict):
        yield from _task(_with_type(runner.get("task"), keys.DEFAULT_TASKS[name]), name)


def _task(task: Any, stage: str) -> Iterator[Problem]:
    path = f"{stage}.runner.task"
    problems = list(check_component(task, TASKS, path, given=keys.GIVEN_TO_TASK))
    yield from problems
    if not problems:
        its_stage = getattr(TASKS.get(task["type"]), "stage", stage)
        if its_stage != stage:
            yield Problem(f"{path}.type", f"{task['type']!r} is for the section {its_stage!r}")


def _summarizer(summarizer: Any) -> Iterator[Problem]:
    summarizer = _with_type(summarizer, keys.DEFAULT_SUMMARIZER)
    yield from check_component(summarizer, SUMMARIZERS, "summarizer")


def _with_type(value: Any, default_type: str) -> Any:
    """Return a dict of the config with its type filled in; what is no dict goes back as it came."""
    if value is None:
        return {"type": default_type}
    return {"type": default_type, **value} if isinstance(value, dict) else value


def _optional(
    parent: Mapping[str, Any], key: str, registry: Any, path: str, given: tuple[str, ...] = ()
) -> Iterator[Problem]:
    if parent.get(key) is not None:
        yield from check_component(parent[key], registry, f"{path}.{key}", given=given)
