"""What all runners offer."""

from __future__ import annotations

import dataclasses
import shlex
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opencompass_ext.checks import check_least
from opencompass_ext.errors import ConfigError, ModelLoadError, OpenCompassExtError
from opencompass_ext.outputs import RunFolder, rows_path
from opencompass_ext.python_process import module_command
from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.runners.devices import only_devices, visible_devices
from opencompass_ext.runners.worker_process import WORKER_MODULE
from opencompass_ext.tasks.base import ModelCache, task_class
from opencompass_ext.tasks.protocol import failure

if TYPE_CHECKING:
    from opencompass_ext.running.progress import Progress


class BaseRunner(ABC):
    """Carries out tasks and says how each pair of model and dataset ended.

    Args:
        task: Config of the task class: its ``type``, and further keyword arguments of it.
        max_num_workers: How many tasks run at the same time.
        retry: How many more times a pair is tried when its worker died or failed for a reason that
            is not the user's to mend.
        debug: Run the tasks in this process, one after another, with their output on the terminal.
        timeout: Seconds that one try of a pair may take; its worker is killed after that, and the
            pair tried again as ``retry`` allows. None for no limit; none holds with ``debug``.

    Raises:
        ConfigError: A number is out of range.
    """

    def __init__(
        self,
        task: Mapping[str, Any] | None = None,
        max_num_workers: int = 1,
        retry: int = 0,
        debug: bool = False,
        timeout: float | None = None,
    ) -> None:
        kind = type(self).__name__
        check_least(1, of=kind, max_num_workers=max_num_workers)
        check_least(0, of=kind, retry=retry)
        is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if timeout is not None and not (is_number and timeout > 0):
            raise ConfigError(
                f"{kind}: timeout must be a number of seconds above 0, got {timeout!r}"
            )
        self.timeout = timeout
        self.task = dict(task or {})
        self.max_num_workers = max_num_workers
        self.retry = retry
        self.debug = debug

    @abstractmethod
    def check(self, tasks: Sequence[TaskSpec]) -> None:
        """Raise ``ConfigError`` if some task can never run here."""

    @abstractmethod
    def launch(
        self, pairs: Sequence[TaskSpec], progress: Progress, fail_fast: bool
    ) -> list[TaskOutcome]:
        """Carry out tasks of one model and one dataset each."""

    def command(self, task: TaskSpec) -> str:
        """Return how the worker of a task is started, for people."""
        return "in this process" if self.debug else self.worker_command(task)

    def worker_command(self, task: TaskSpec) -> str:
        """Return the command of a worker process that does the task, for people."""
        return shlex.join(module_command(WORKER_MODULE))

    def run(
        self, tasks: Sequence[TaskSpec], progress: Progress, *, fail_fast: bool = False
    ) -> list[TaskOutcome]:
        """Carry out ``tasks`` and return one outcome per pair of model and dataset, in order.

        A Ctrl-C is not raised: what it kept from ending well has the status ``"interrupted"``.

        Args:
            tasks: The tasks.
            progress: Told what happens.
            fail_fast: Start nothing more once a pair has failed; pairs that were never started
                have the status ``"skipped"``.

        Raises:
            ConfigError: Some task can never run here; none is started.
        """
        self.check(tasks)
        pairs = split_pairs(tasks)
        if self.debug:
            return run_in_this_process(pairs, progress, fail_fast)
        return self.launch(pairs, progress, fail_fast)


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
        error: str | None = None
        status = "done"
        cls = task_class(pair.type)
        num_gpus = cls.num_gpus(pair)
        devices = visible_devices()[:num_gpus] if num_gpus else ()
        try:
            with only_devices(devices):
                how = cls(pair, **pair.options).run(progress.reporter(pair), models)
        except KeyboardInterrupt:
            status = stop = "interrupted"
        except OpenCompassExtError as caught:
            status, error = "failed", failure(caught).error
            if isinstance(caught, ModelLoadError):
                lost[group] = error
        except Exception as caught:
            traceback.print_exc()
            status, error = "failed", failure(caught).error
        outcome = TaskOutcome(pair, status, error, seconds=time.monotonic() - start)
        outcomes.append(outcome)
        progress.closed(outcome, how if status == "done" else status)
        if status == "failed" and fail_fast:
            stop = "skipped"
    return outcomes
