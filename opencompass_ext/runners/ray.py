"""Runs tasks in actors of Ray, on this machine or on a cluster."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opencompass_ext.checks import check_least
from opencompass_ext.errors import ConfigError, MissingDependencyError
from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.registry import RUNNERS
from opencompass_ext.runners.base import BaseRunner, check_gpus_here
from opencompass_ext.runners.devices import cpu_cores, visible_devices
from opencompass_ext.runners.ray_workplace import RayWorkplace
from opencompass_ext.runners.schedule import Schedule
from opencompass_ext.tasks.base import task_class

if TYPE_CHECKING:
    from opencompass_ext.running.progress import Progress

LOCAL = "local"
# For what Ray puts into shared memory: here only messages. It would take a third of the machine's.
_OBJECT_STORE_BYTES = 100 * 2**20
# Ray would wait for minutes for a cluster that is not there.
_SECONDS_TO_REACH = 10.0
# A cluster of its own neither sends statistics nor leaves a token in the user's home.
_LOCAL_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
_SETTINGS = {
    # Ray leaves the GPUs of an actor without GPUs alone: a worker sees to that itself.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Else pages about a node or a worker that has died come out among our own output. What became
    # of a worker is told by its end.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",
}


@RUNNERS.register_module()
class RayRunner(BaseRunner):
    """Keeps up to ``max_num_workers`` actors of Ray at work.

    An actor serves one model: it keeps it loaded and takes one dataset after another. Ray decides
    where it runs, and starts as many at a time as the cluster has room for. On several machines,
    ``work_dir`` must be in a folder that all of them share.

    Args:
        task: See ``BaseRunner``.
        address: ``"local"`` starts a cluster of this machine alone and ends it with the run;
            ``"auto"`` is the cluster that this machine belongs to; else ``"host:port"`` of the head
            of a cluster.
        max_num_workers: Workers at the same time.
        max_workers_per_gpu: Workers that may share one GPU; a model on several GPUs shares none.
        num_cpus: CPUs that a worker takes, and its threads. None: all of a node for a model without
            GPUs, and one for a model on GPUs.
        retry: See ``BaseRunner``; a node that is lost costs its workers a try.
        debug: See ``BaseRunner``.
        timeout: See ``BaseRunner``.
    """

    def __init__(
        self,
        task: Mapping[str, Any] | None = None,
        address: str = LOCAL,
        max_num_workers: int = 32,
        max_workers_per_gpu: int = 1,
        num_cpus: int | None = None,
        retry: int = 2,
        debug: bool = False,
        timeout: float | None = None,
    ) -> None:
        super().__init__(task, max_num_workers, retry, debug, timeout)
        if "://" in address:
            raise ConfigError(
                f"RayRunner: address {address!r} is one of Ray Client, which cannot be used here: "
                "give host:port of the head node, run on a machine of the cluster"
            )
        self.address = address
        self.max_workers_per_gpu = max_workers_per_gpu
        self.num_cpus = num_cpus
        check_least(1, of="RayRunner", max_workers_per_gpu=max_workers_per_gpu)
        check_least(1, of="RayRunner", num_cpus=num_cpus, may_be_none=True)

    def check(self, tasks: Sequence[TaskSpec]) -> None:
        """Raise ``ConfigError`` if the cluster is not there, or has too few GPUs for some task."""
        if self.debug:
            check_gpus_here(tasks)
            return
        if not tasks:
            return
        needs = {task.name: task_class(task.type).num_gpus(task) for task in tasks}
        name = max(needs, key=lambda n: needs[n])
        if self.address == LOCAL:
            with _set_unless_set(_SETTINGS):
                load_ray()
            most = len(visible_devices()) if needs[name] else 0
        else:
            with self._connected() as ray:
                most = max((int(node.get("GPU", 0)) for node in nodes_of(ray)), default=0)
        if needs[name] > most:
            raise ConfigError(
                f"{name} asks for {needs[name]} GPUs (run_cfg.num_gpus), and no machine of the Ray "
                f"cluster {self.address!r} has more than {most}: lower num_gpus, or look at "
                "'ray status'"
            )

    def worker_command(self, task: TaskSpec) -> str:
        """Return what Ray is asked for."""
        num_gpus = task_class(task.type).num_gpus(task)
        num_cpus = self.num_cpus or (1 if num_gpus else "all of a node")
        return f"an actor of Ray at {self.address}, CPUs: {num_cpus}, GPUs: {num_gpus}"

    def launch(
        self, pairs: Sequence[TaskSpec], progress: Progress, fail_fast: bool
    ) -> list[TaskOutcome]:
        """Carry out the tasks in actors."""
        with self._connected() as ray:
            cpus = [int(node["CPU"]) for node in nodes_of(ray) if node.get("CPU", 0) >= 1]
            if not cpus:
                raise ConfigError(f"the Ray cluster {self.address!r} has no CPUs to offer")
            workplace = RayWorkplace(
                ray, self.max_workers_per_gpu, self.num_cpus or min(cpus), self.num_cpus or 1
            )
            return Schedule(
                pairs,
                progress,
                workplace=workplace,
                max_num_workers=self.max_num_workers,
                retry=self.retry,
                fail_fast=fail_fast,
                timeout=self.timeout,
            ).run()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Connect to the cluster, or start one, for the time of the block; yield the module."""
        if self.address not in (LOCAL, "auto"):
            reach(self.address)
        settings = _SETTINGS | (_LOCAL_SETTINGS if self.address == LOCAL else {})
        handlers = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}
        with _set_unless_set(settings), _own_options(self.address) as options:
            ray = load_ray()
            try:
                connect(ray, self.address, options)
                yield ray
            finally:
                # One more Ctrl-C would leave processes behind that nobody ends.
                _set_handlers(dict.fromkeys(handlers, signal.SIG_IGN))
                ray.shutdown()
                # Ray has put a handler of its own for SIGTERM in the place of ours.
                _set_handlers(handlers)


def connect(ray: Any, address: str, options: Mapping[str, Any]) -> None:
    """Connect to a cluster, or start one.

    Raises:
        ConfigError: Ray says no: there is no cluster, or one of another version.
    """
    try:
        ray.init(address=address, log_to_driver=False, logging_level="warning", **options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise ConfigError(f"Ray at {address!r}: {error}") from error


@contextmanager
def _own_options(address: str) -> Iterator[dict[str, Any]]:
    """Yield what ``ray.init`` must know to start a cluster; nothing for one that is there."""
    if address != LOCAL:
        yield {}
        return
    # A short path: the sockets in it may have some hundred characters.
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    try:
        yield {
            "num_cpus": cpu_cores(),
            "num_gpus": len(visible_devices()),
            "object_store_memory": _OBJECT_STORE_BYTES,
            "include_dashboard": False,
            "_temp_dir": folder,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def load_ray() -> Any:
    """Return the module ``ray``.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError("ray", needed_for="RayRunner", extra="ray") from error
    return ray


def reach(address: str) -> None:
    """Raise ``ConfigError`` unless something listens at ``host:port``."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(
            f"RayRunner: address must be 'local', 'auto' or host:port, got {address!r}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_REACH).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"nothing answers at {address}, where the head of a Ray cluster should be ({error}): "
            "look at 'ray status' there"
        ) from error


def nodes_of(ray: Any) -> list[Mapping[str, float]]:
    """Return the resources of each machine of the cluster, those that are taken included."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _set_handlers(handlers: Mapping[signal.Signals, Any]) -> None:
    if threading.current_thread() is threading.main_thread():  # no other may
        for which, handler in handlers.items():
            signal.signal(which, handler)


@contextmanager
def _set_unless_set(settings: Mapping[str, str]) -> Iterator[None]:
    added = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
