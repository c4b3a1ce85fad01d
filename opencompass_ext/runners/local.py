"""Runs tasks in worker processes on this machine."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opencompass_ext.errors import ConfigError
from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.registry import RUNNERS
from opencompass_ext.runners.base import BaseRunner
from opencompass_ext.runners.devices import describe_devices, visible_devices, worker_environment
from opencompass_ext.runners.schedule import Schedule
from opencompass_ext.runners.slots import DeviceSlots
from opencompass_ext.runners.worker_process import WorkerProcess
from opencompass_ext.runners.workplace import Worker
from opencompass_ext.tasks.base import task_class

if TYPE_CHECKING:
    from opencompass_ext.progress import Progress

logger = logging.getLogger(__name__)


@RUNNERS.register_module()
class LocalRunner(BaseRunner):
    """Keeps up to ``max_num_workers`` worker processes busy.

    A worker serves one model: it keeps it loaded and takes one dataset after another. Each worker
    sees only its own GPUs, and none if its model asks for none.

    Args:
        task: See ``BaseRunner``.
        max_num_workers: Worker processes at the same time.
        max_workers_per_gpu: Workers that may share one GPU.
        retry: See ``BaseRunner``; each try is made by a fresh worker.
        debug: See ``BaseRunner``.
    """

    def __init__(
        self,
        task: Mapping[str, Any] | None = None,
        max_num_workers: int = 1,
        max_workers_per_gpu: int = 1,
        retry: int = 0,
        debug: bool = False,
    ) -> None:
        super().__init__(task, max_num_workers, retry, debug)
        self.max_workers_per_gpu = max_workers_per_gpu
        for name, least in (("max_num_workers", 1), ("max_workers_per_gpu", 1), ("retry", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ConfigError(
                    f"LocalRunner: {name} must be a whole number of at least {least}, got {value!r}"
                )

    def check(self, tasks: Sequence[TaskSpec]) -> None:
        """Raise ``ConfigError`` if a task asks for more GPUs than this process can see."""
        if not tasks:
            return
        needs = {task.name: task_class(task.type).num_gpus(task) for task in tasks}
        name = max(needs, key=lambda n: needs[n])
        available = len(visible_devices()) if needs[name] else 0
        if needs[name] > available:
            raise ConfigError(
                f"{name} asks for {needs[name]} GPUs (run_cfg.num_gpus), and this machine offers "
                f"{available}: lower num_gpus, or look at nvidia-smi and CUDA_VISIBLE_DEVICES"
            )

    def worker_command(self, task: TaskSpec) -> str:
        """Return the command of a worker process, with the GPUs it may get."""
        count = task_class(task.type).num_gpus(task)
        return f"{describe_devices(count, visible_devices())} {super().worker_command(task)}"

    def launch(
        self, pairs: Sequence[TaskSpec], progress: Progress, fail_fast: bool
    ) -> list[TaskOutcome]:
        """Carry out the tasks in worker processes."""
        for abbr in dict.fromkeys(pair.model["abbr"] for pair in pairs if _num_procs(pair) > 1):
            logger.warning(
                "model %r: run_cfg.num_procs is not used: one process spreads a model over its "
                "num_gpus GPUs",
                abbr,
            )
        needs_gpu = any(task_class(pair.type).num_gpus(pair) for pair in pairs)
        devices = visible_devices() if needs_gpu else ()
        return Schedule(
            pairs,
            progress,
            workplace=ThisMachine(
                DeviceSlots(devices, self.max_workers_per_gpu),
                concurrent_workers=min(self.max_num_workers, len(pairs)),
            ),
            max_num_workers=self.max_num_workers,
            retry=self.retry,
            fail_fast=fail_fast,
        ).run()


class ThisMachine:
    """Starts worker processes here; a ``Workplace``.

    Args:
        slots: The GPUs.
        concurrent_workers: How many workers share the CPU cores.
    """

    def __init__(self, slots: DeviceSlots, concurrent_workers: int) -> None:
        self._slots = slots
        self._concurrent_workers = concurrent_workers
        self._devices: dict[Worker, tuple[str, ...]] = {}

    def hire(self, group: str, first: TaskSpec, log: str) -> Worker | None:
        """Start a worker that sees GPUs of its own alone, or return None while too few are free."""
        devices = self._slots.take(task_class(first.type).num_gpus(first))
        if devices is None:
            return None
        worker = WorkerProcess(worker_environment(devices, self._concurrent_workers), log)
        self._devices[worker] = devices
        return worker

    def release(self, worker: Worker) -> None:
        """Free the GPUs of a worker that has ended."""
        self._slots.give_back(self._devices.pop(worker))


def _num_procs(pair: TaskSpec) -> int:
    return int(pair.model.get("run_cfg", {}).get("num_procs", 1))
