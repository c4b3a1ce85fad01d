"""Runs tasks in worker processes on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opencompass_ext.checks import check_least
from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.registry import MODELS, RUNNERS
from opencompass_ext.runners.base import BaseRunner, check_gpus_here
from opencompass_ext.runners.devices import (
    cpu_cores,
    describe_devices,
    visible_devices,
    worker_environment,
)
from opencompass_ext.runners.schedule import Schedule
from opencompass_ext.runners.slots import DeviceSlots
from opencompass_ext.runners.worker_process import WorkerProcess
from opencompass_ext.runners.workplace import Worker
from opencompass_ext.tasks.base import task_class

if TYPE_CHECKING:
    from opencompass_ext.running.progress import Progress


@RUNNERS.register_module()
class LocalRunner(BaseRunner):
    """Keeps up to ``max_num_workers`` worker processes busy.

    A worker serves one model: it keeps it loaded and takes one dataset after another. Each worker
    sees only its own GPUs, and none if its model asks for none.

    Args:
        task: See ``BaseRunner``.
        max_num_workers: Worker processes at the same time; those that share one model
            (``num_procs``) count as one. Without GPUs there are no more than CPU cores, however
            many may be, unless the model is on a server.
        max_workers_per_gpu: Workers that may share one GPU.
        retry: See ``BaseRunner``; each try is made by a fresh worker.
        debug: See ``BaseRunner``.
        timeout: See ``BaseRunner``.
    """

    def __init__(
        self,
        task: Mapping[str, Any] | None = None,
        max_num_workers: int = 1,
        max_workers_per_gpu: int = 1,
        retry: int = 0,
        debug: bool = False,
        timeout: float | None = None,
    ) -> None:
        super().__init__(task, max_num_workers, retry, debug, timeout)
        check_least(1, of="LocalRunner", max_workers_per_gpu=max_workers_per_gpu)
        self.max_workers_per_gpu = max_workers_per_gpu

    def check(self, tasks: Sequence[TaskSpec]) -> None:
        """Raise ``ConfigError`` if a task asks for more GPUs than this process can see."""
        check_gpus_here(tasks)

    def worker_command(self, task: TaskSpec) -> str:
        """Return the command of a worker process, with the GPUs it may get."""
        count = task_class(task.type).num_gpus(task)
        return f"{describe_devices(count, visible_devices())} {super().worker_command(task)}"

    def launch(
        self, pairs: Sequence[TaskSpec], progress: Progress, fail_fast: bool
    ) -> list[TaskOutcome]:
        """Carry out the tasks in worker processes."""
        needs_gpu = any(task_class(pair.type).num_gpus(pair) for pair in pairs)
        devices = visible_devices() if needs_gpu else ()
        return Schedule(
            pairs,
            progress,
            workplace=ThisMachine(
                DeviceSlots(devices, self.max_workers_per_gpu),
                most_workers=min(_most_processes(pairs, self.max_num_workers), len(pairs)),
            ),
            max_num_workers=self.max_num_workers,
            retry=self.retry,
            fail_fast=fail_fast,
            timeout=self.timeout,
        ).run()


class ThisMachine:
    """Starts worker processes here; a ``Workplace``.

    Args:
        slots: The GPUs.
        most_workers: How many workers there can be at the same time.
    """

    def __init__(self, slots: DeviceSlots, most_workers: int) -> None:
        self._slots = slots
        self._most_workers = most_workers
        self._devices: dict[Worker, tuple[str, ...]] = {}
        self._on_cores: set[Worker] = set()

    def hire(self, group: str, first: TaskSpec, log: str) -> Worker | None:
        """Start a worker, or return None while too few of its GPUs, or no CPU cores, are free."""
        num_gpus = task_class(first.type).num_gpus(first)
        needs_core = num_gpus == 0 and not _is_on_server(first)
        if needs_core and len(self._on_cores) >= cpu_cores():
            return None
        devices = self._slots.take(num_gpus)
        if devices is None:
            return None
        worker = WorkerProcess(worker_environment(devices, self._most_workers), log)
        self._devices[worker] = devices
        if needs_core:
            self._on_cores.add(worker)
        return worker

    def release(self, worker: Worker) -> None:
        """Free the GPUs, or the core, of a worker that has ended."""
        self._slots.give_back(self._devices.pop(worker))
        self._on_cores.discard(worker)


def _is_on_server(task: TaskSpec) -> bool:
    """Whether the task's own process does little: the model computes on some server."""
    kind = task.model.get("type")
    return kind is not None and getattr(MODELS.get(kind), "is_on_server", False)


def _most_processes(pairs: Sequence[TaskSpec], max_num_workers: int) -> int:
    return max_num_workers * max((pair.num_procs for pair in pairs), default=1)
