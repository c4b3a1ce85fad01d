"""Runs tasks in the process of the runner itself, to look for a fault."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from opencompass_ext.errors import OpenCompassExtError
from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.runners.devices import only_devices, visible_devices
from opencompass_ext.runners.pairs import has_output
from opencompass_ext.tasks.base import ModelCache, task_class
from opencompass_ext.tasks.protocol import failure

if TYPE_CHECKING:
    from opencompass_ext.running.progress import Progress


class _End(NamedTuple):
    """How a task has ended: for the run, for people, and why it failed."""

    status: str
    how: str
    error: str | None = None
    is_model_lost: bool = False


def run_in_this_process(
    pairs: Sequence[TaskSpec], progress: Progress, fail_fast: bool
) -> list[TaskOutcome]:
    """Carry out tasks one after another in this process, output and tracebacks on the terminal."""
    models = ModelCache()
    outcomes: list[TaskOutcome] = []
    stop: str | None = None
    lost: dict[str, str] = {}  # models that cannot be loaded -> why
    for pair in pairs:
        if stop is not None:
            outcomes.append(TaskOutcome(pair, stop))
            continue
        group = task_class(pair.type).worker_group(pair)
        if group in lost and not has_output(pair):
            outcomes.append(TaskOutcome(pair, "failed", lost[group]))
            progress.closed(outcomes[-1], "failed", is_told=True)
            continue
        progress.started(pair)
        start = time.monotonic()
        end = _do(pair, progress, models)
        outcomes.append(TaskOutcome(pair, end.status, end.error, seconds=time.monotonic() - start))
        progress.closed(outcomes[-1], end.how)
        if end.is_model_lost and end.error is not None:
            lost[group] = end.error
        if end.status == "interrupted":
            stop = "interrupted"
        elif end.status == "failed" and fail_fast:
            stop = "skipped"
    return outcomes


def _do(pair: TaskSpec, progress: Progress, models: ModelCache) -> _End:
    cls = task_class(pair.type)
    num_gpus = cls.num_gpus(pair)
    devices = visible_devices()[:num_gpus] if num_gpus else ()
    try:
        with only_devices(devices):
            how = cls(pair, **pair.options).run(progress.reporter(pair), models)
        return _End("done", how)
    except KeyboardInterrupt:
        return _End("interrupted", "interrupted")
    except Exception as error:
        if not isinstance(error, OpenCompassExtError):
            traceback.print_exc()
        told = failure(error)
        return _End("failed", "failed", told.error, told.is_models)
