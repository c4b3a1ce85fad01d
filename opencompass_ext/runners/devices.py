"""Which GPUs and CPU cores there are, and how a worker is told which of them are its own.

No other module reads or sets a device variable. GPU entries are passed on as they are written, in
their order, be they numbers, ``GPU-...`` or ``MIG-...`` names.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

logger = logging.getLogger(__name__)

VISIBLE = "CUDA_VISIBLE_DEVICES"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
# Some ten microseconds: longer than the pauses within a layer, far shorter than a time slice.
SPINS = "20000"


def visible_devices(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the GPUs this process may use, by the names that ``CUDA_VISIBLE_DEVICES`` takes.

    When the variable is not set, the driver's own tool is asked: nothing here loads torch.

    Example:
        >>> visible_devices({"CUDA_VISIBLE_DEVICES": "2,0"})
        ('2', '0')
        >>> visible_devices({"CUDA_VISIBLE_DEVICES": ""})
        ()
    """
    if VISIBLE not in environment:
        return _devices_of_driver()
    entries = [entry.strip() for entry in environment[VISIBLE].split(",")]
    # CUDA itself ignores all entries from the first invalid one on; -1 is the usual "none".
    stop = next((i for i, entry in enumerate(entries) if entry in ("", "-1")), len(entries))
    return tuple(entries[:stop])


@functools.cache  # the tool takes seconds on a machine with many GPUs
def _devices_of_driver() -> tuple[str, ...]:
    try:
        reply = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False
        )
    except FileNotFoundError:
        return ()
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.warning("nvidia-smi -L gave no list of GPUs (%s): going on without GPUs", error)
        return ()
    if reply.returncode != 0:
        said = (reply.stderr or reply.stdout).strip()
        logger.warning("nvidia-smi -L failed (%s): going on without GPUs", said)
        return ()
    return parse_device_list(reply.stdout)


def parse_device_list(listing: str) -> tuple[str, ...]:
    r"""Return the devices in the output of ``nvidia-smi -L``: MIG slices instead of their GPU.

    Example:
        >>> parse_device_list("GPU 0: A100 (UUID: GPU-5d5b)\nGPU 1: A100 (UUID: GPU-77aa)\n")
        ('0', '1')
    """
    devices: list[tuple[str, list[str]]] = []
    for line in listing.splitlines():
        if gpu := re.match(r"GPU (\d+):", line):
            devices.append((gpu[1], []))
        elif devices and (mig := re.search(r"\(UUID: (MIG-[^)]+)\)", line)):
            devices[-1][1].append(mig[1])
    return tuple(name for gpu, slices in devices for name in (slices or [gpu]))


def describe_devices(count: int, devices: Sequence[str]) -> str:
    """Return what a worker with ``count`` GPUs will see of ``devices``, for people.

    Example:
        >>> describe_devices(1, ("2", "GPU-5d5b")), describe_devices(2, ("2", "GPU-5d5b"))
        ('CUDA_VISIBLE_DEVICES=<1 of 2,GPU-5d5b>', 'CUDA_VISIBLE_DEVICES=2,GPU-5d5b')
    """
    names = ",".join(devices)
    return f"{VISIBLE}=" + (
        "" if count == 0 else names if count == len(devices) else f"<{count} of {names}>"
    )


def cpu_cores() -> int:
    """Return how many CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_environment(
    devices: Sequence[str],
    concurrent_workers: int,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return the environment of a worker: exactly its GPUs, and its share of the CPU cores.

    A worker without GPUs sees none. Its threads are limited, unless the user has set a number:
    workers with a thread per core each would wait for one another's threads to be scheduled. And
    a waiting thread goes to sleep soon, unless the user has said how threads wait: on a core that
    something else needs too, a spinning thread holds up the very work it waits for, and scoring
    becomes several times slower.

    Args:
        devices: Entries for ``CUDA_VISIBLE_DEVICES``.
        concurrent_workers: How many workers run at the same time.
        environment: What to start from.

    Example:
        >>> worker_environment(("GPU-5d5b", "2"), 1, {})
        {'CUDA_VISIBLE_DEVICES': 'GPU-5d5b,2', 'GOMP_SPINCOUNT': '20000'}
    """
    result = {**environment, VISIBLE: ",".join(devices), **_waiting(environment)}
    if not devices:
        result |= _threads(max(1, cpu_cores() // concurrent_workers), environment)
    return result


def allocation_environment(
    num_gpus: int, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the changes to the environment of a worker that Slurm has started.

    Slurm has chosen the GPUs: they stay as they are written. A worker without GPUs sees none, also
    where Slurm hides none. It gets a thread for each CPU of its allocation: not every cluster binds
    a job to its CPUs, and with a thread for every core of the node it would take those of others.

    Args:
        num_gpus: GPUs that were asked for.
        environment: What Slurm has set.

    Example:
        >>> allocation_environment(0, {"SLURM_CPUS_ON_NODE": "4", "OMP_WAIT_POLICY": "PASSIVE"})
        {'CUDA_VISIBLE_DEVICES': '', 'OMP_NUM_THREADS': '4', 'MKL_NUM_THREADS': '4'}
        >>> allocation_environment(1, {"CUDA_VISIBLE_DEVICES": "3", "OMP_NUM_THREADS": "2"})
        {'GOMP_SPINCOUNT': '20000'}
    """
    changes = {} if num_gpus else {VISIBLE: ""}
    changes |= _waiting(environment)
    cpus = environment.get("SLURM_CPUS_PER_TASK") or environment.get("SLURM_CPUS_ON_NODE")
    return changes | (_threads(int(cpus), environment) if cpus else {})


def actor_environment(
    num_gpus: int, num_cpus: int, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the changes to the environment of a worker that Ray has started.

    As for Slurm: GPUs are those that Ray has chosen, a worker without GPUs sees none, and it gets a
    thread for each of its CPUs. Ray itself would allow one thread alone.

    Args:
        num_gpus: GPUs that were asked for.
        num_cpus: CPUs that were asked for.
        environment: That of the runner: how the user wants threads to be.

    Example:
        >>> actor_environment(0, 2, {"GOMP_SPINCOUNT": "7"}).keys()
        dict_keys(['CUDA_VISIBLE_DEVICES', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'GOMP_SPINCOUNT'])
        >>> actor_environment(1, 2, {"OMP_NUM_THREADS": "4", "GOMP_SPINCOUNT": "7"})
        {'OMP_NUM_THREADS': '4', 'GOMP_SPINCOUNT': '7'}
    """
    changes = {} if num_gpus else {VISIBLE: ""}
    changes |= _waiting(environment) | _threads(num_cpus, environment)
    return changes | {k: environment[k] for k in (*THREADS, *WAITING) if k in environment}


def _waiting(environment: Mapping[str, str]) -> dict[str, str]:
    return {} if any(name in environment for name in WAITING) else {WAITING[0]: SPINS}


def _threads(count: int, environment: Mapping[str, str]) -> dict[str, str]:
    if any(name in environment for name in THREADS):
        return {}
    return dict.fromkeys(THREADS, str(count))


@contextmanager
def only_devices(devices: Sequence[str]) -> Iterator[None]:
    """Let this very process see only ``devices`` within the block.

    CUDA reads the variable once, when it is first used: what a later block sets has no effect then.
    """
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = ",".join(devices)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = before
