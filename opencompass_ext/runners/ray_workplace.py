"""Workers in actors of Ray, and where they come from."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from opencompass_ext.python_process import module_environment
from opencompass_ext.records import TaskSpec
from opencompass_ext.runners.devices import actor_environment
from opencompass_ext.runners.inbox import Inbox
from opencompass_ext.runners.ray_actor import CONCURRENT_CALLS, WorkerActor
from opencompass_ext.runners.worker_process import last_line
from opencompass_ext.tasks.base import task_class
from opencompass_ext.tasks.protocol import Assignment, Event

logger = logging.getLogger(__name__)

# A busy cluster may need longer; then the user should know what is waited for.
_SECONDS_UNTIL_TOLD = 30.0
_SECONDS_BETWEEN_TRIES = 1.0


class RayWorker:
    """An actor and the thread that listens to it; a ``Worker``.

    Args:
        ray: The module.
        actor: Handle of a ``WorkerActor``.
        needs: What the actor has asked for, in words.
    """

    def __init__(self, ray: Any, actor: Any, needs: str) -> None:
        self._ray = ray
        self._actor = actor
        self._needs = needs
        self._has_started = False
        self._end: str | None = None
        self._inbox = Inbox()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def events(self) -> int:
        """File descriptor to wait on."""
        return self._inbox.descriptor

    def assign(self, assignment: Assignment) -> None:
        """Send the next task to the actor."""
        self._actor.assign.remote(assignment.to_line())

    def dismiss(self) -> None:
        """Tell the actor that there are no more tasks; one that has not started is called off."""
        if self._has_started:
            self._actor.dismiss.remote()
        else:
            self.kill()

    def kill(self) -> None:
        """End the process of the actor."""
        self._ray.kill(self._actor)

    def read_events(self) -> list[Event]:
        """Return the events that have come in since the last call."""
        return self._inbox.take()

    def has_ended(self) -> bool:
        """Whether the actor is gone."""
        return self._end is not None

    def last_words(self, log: str) -> str:
        """Return how the actor ended, and the last line of the log."""
        assert self._end is not None
        return f"{self._end}: {last_line(log)}" if Path(log).is_file() else self._end

    def close(self) -> None:
        """Free what is left."""
        self._thread.join()
        self._inbox.close()

    def _listen(self) -> None:
        """Hand over events until the actor ends, for whatever reason."""
        try:
            end = self._hand_over(self._actor.run.remote())
        except Exception as error:  # the schedule would wait for ever for a worker without an end
            end = in_one_line(error)
        self._end = end
        self._inbox.ring()
        self._ray.kill(self._actor)

    def _hand_over(self, exit_code: Any) -> str:
        position = 0
        is_told = False
        began = time.monotonic()
        call = self._actor.read_events.remote(position)
        while True:
            try:
                data = self._ray.get(call, timeout=_SECONDS_UNTIL_TOLD)
            except self._ray.exceptions.GetTimeoutError:
                if not self._has_started and not is_told:
                    is_told = True
                    seconds = time.monotonic() - began
                    logger.info("Ray has had no room for %s for %.0f s", self._needs, seconds)
                continue
            except self._ray.exceptions.ActorUnavailableError:
                # Either it comes back, with all it has to tell, or Ray declares it dead.
                time.sleep(_SECONDS_BETWEEN_TRIES)
                data = b""
            if data is None:
                return f"the worker ended with exit code {self._ray.get(exit_code)}"
            if data:
                self._has_started = True
                position += len(data)
                self._inbox.put(data)
            call = self._actor.read_events.remote(position)


class RayWorkplace:
    """Starts actors; a ``Workplace``. Ray has no room for all of them: it starts what fits.

    Args:
        ray: The module, connected to a cluster.
        max_workers_per_gpu: Workers that may share one GPU.
        cpu_worker_cpus: CPUs for a worker without GPUs.
        gpu_worker_cpus: CPUs for a worker with GPUs.
    """

    def __init__(
        self, ray: Any, max_workers_per_gpu: int, cpu_worker_cpus: int, gpu_worker_cpus: int
    ) -> None:
        self._ray = ray
        self._max_workers_per_gpu = max_workers_per_gpu
        self._cpu_worker_cpus = cpu_worker_cpus
        self._gpu_worker_cpus = gpu_worker_cpus

    def hire(self, group: str, first: TaskSpec, log: str) -> RayWorker:
        """Ask for an actor."""
        num_gpus = task_class(first.type).num_gpus(first)
        num_cpus = self._gpu_worker_cpus if num_gpus else self._cpu_worker_cpus
        environment = actor_environment(num_gpus, num_cpus)
        actor_class = self._ray.remote(WorkerActor).options(
            num_cpus=num_cpus,
            # Ray shares out one GPU at most.
            num_gpus=1 / self._max_workers_per_gpu if num_gpus == 1 else num_gpus,
            max_concurrency=CONCURRENT_CALLS,
            max_restarts=0,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": {"PYTHONPATH": module_environment({})["PYTHONPATH"]}},
        )
        actor = actor_class.remote(os.getcwd(), dict(os.environ), environment)
        return RayWorker(self._ray, actor, f"a worker of {num_cpus} CPUs and {num_gpus} GPUs")

    def release(self, worker: object) -> None:
        """Do nothing: Ray itself keeps account of CPUs and GPUs."""


def in_one_line(error: Exception) -> str:
    r"""Return what an error of Ray says about the end of an actor, without its particulars.

    Example:
        >>> in_one_line(ValueError("The actor died.\n\tclass_name: A\n\tpid: 7\nIts node is gone."))
        'The actor died. Its node is gone.'
    """
    lines = [line.rstrip() for line in str(error).splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(("\t", " ")))
