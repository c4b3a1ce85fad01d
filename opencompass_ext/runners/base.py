"""What all runners offer."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opencompass_ext.checks import check_least
from opencompass_ext.errors import ConfigError
from opencompass_ext.python_process import module_command
from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.runners.devices import visible_devices
from opencompass_ext.runners.pairs import split_pairs
from opencompass_ext.runners.this_process import run_in_this_process
from opencompass_ext.runners.worker_process import WORKER_MODULE
from opencompass_ext.tasks.base import task_class

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


def check_gpus_here(tasks: Sequence[TaskSpec]) -> None:
    """Raise ``ConfigError`` if a task asks for more GPUs than this process can see."""
    needs = {task.name: task_class(task.type).num_gpus(task) for task in tasks}
    name = max(needs, key=lambda n: needs[n], default="")
    if not needs or not needs[name]:
        return
    available = len(visible_devices())
    if needs[name] > available:
        raise ConfigError(
            f"{name} asks for {needs[name]} GPUs (run_cfg.num_gpus), and this machine offers "
            f"{available}: lower num_gpus, or look at nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
