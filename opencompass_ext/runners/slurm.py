"""Runs tasks in allocations of Slurm."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opencompass_ext.errors import ConfigError
from opencompass_ext.outputs import RunFolder
from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.registry import RUNNERS
from opencompass_ext.runners import slurm_commands
from opencompass_ext.runners.base import BaseRunner, check_gpus_here
from opencompass_ext.runners.schedule import Schedule
from opencompass_ext.runners.slurm_commands import SlurmError
from opencompass_ext.runners.slurm_workplace import SlurmWorkplace, request_options
from opencompass_ext.tasks.base import task_class

if TYPE_CHECKING:
    from opencompass_ext.running.progress import Progress


@RUNNERS.register_module()
class SlurmRunner(BaseRunner):
    """Keeps up to ``max_num_workers`` workers in the queue of Slurm or at work.

    A worker is one job. It serves one model: it keeps it loaded and takes one dataset after another
    as long as there are some. Run this where ``sbatch`` works, with ``work_dir`` in a folder that
    all nodes share.

    Args:
        task: See ``BaseRunner``.
        max_num_workers: Jobs in the queue or at work at the same time.
        retry: See ``BaseRunner``; a job that was cancelled, ran out of time or lost its node counts
            as a try of the dataset it had in hand.
        partition: Partition; None leaves it to Slurm.
        quotatype: Value of ``--quotatype``, an option that some clusters have added to Slurm.
        qos: Quality of service; None leaves it to Slurm.
        extra_command: Further options of ``sbatch``, such as ``["--time=2:00:00", "--mem=32G"]``.
        debug: See ``BaseRunner``.
        timeout: See ``BaseRunner``; counted from when a worker takes the task, not in the queue.
    """

    def __init__(
        self,
        task: Mapping[str, Any] | None = None,
        max_num_workers: int = 32,
        retry: int = 2,
        partition: str | None = None,
        quotatype: str | None = None,
        qos: str | None = None,
        extra_command: Sequence[str] = (),
        debug: bool = False,
        timeout: float | None = None,
    ) -> None:
        super().__init__(task, max_num_workers, retry, debug, timeout)
        given = {"partition": partition, "quotatype": quotatype, "qos": qos}
        self.options = [f"--{name}={value}" for name, value in given.items() if value is not None]
        for option in extra_command:
            if not isinstance(option, str) or not option.startswith("-"):
                raise ConfigError(
                    "SlurmRunner: extra_command must be a list of options of sbatch, each with its "
                    f"value in one text as in ['--time=2:00:00'], got {option!r}"
                )
            self.options.append(option)

    def check(self, tasks: Sequence[TaskSpec]) -> None:
        """Raise ``ConfigError`` if Slurm would not take a job for some task."""
        if self.debug:
            check_gpus_here(tasks)
            return
        needs = {task_class(task.type).num_gpus(task): task.name for task in tasks}
        for num_gpus, name in needs.items():
            try:
                slurm_commands.check_request([*self.options, *request_options("check", num_gpus)])
            except SlurmError as error:
                raise ConfigError(
                    f"Slurm would not take a job for {name}, {num_gpus} GPUs: {error}. Look at "
                    "sinfo, at -p, -q and --qos (partition, quotatype and qos of the runner), and "
                    "at run_cfg.num_gpus of the model"
                ) from error

    def worker_command(self, task: TaskSpec) -> str:
        """Return the command that queues a worker, its script left out."""
        num_gpus = task_class(task.type).num_gpus(task)
        request = request_options(str(task.model["abbr"]), num_gpus)
        return shlex.join(["sbatch", *self.options, *request, "--array=..."])

    def launch(
        self, pairs: Sequence[TaskSpec], progress: Progress, fail_fast: bool
    ) -> list[TaskOutcome]:
        """Carry out the tasks in jobs."""
        with SlurmWorkplace(self.options, RunFolder(pairs[0].run_folder)) as workplace:
            return Schedule(
                pairs,
                progress,
                workplace=workplace,
                max_num_workers=self.max_num_workers,
                retry=self.retry,
                fail_fast=fail_fast,
                timeout=self.timeout,
            ).run()
