"""The flags that send tasks to a cluster, and what they make of a config's runner."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from opencompass_ext.compat import our_name
from opencompass_ext.errors import ConfigError

_SLURM = "SlurmRunner"
_RAY = "RayRunner"
# What a runner of another kind can take over. How many workers at a time it cannot: that was said
# of another machine.
_COMMON_KEYS = ("task", "retry", "debug")
_SLURM_FLAGS = {"partition": "-p", "quotatype": "-q", "qos": "--qos"}


def add_cluster_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags to a group of them."""
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--slurm", action="store_true", help="run tasks as Slurm jobs, queued with sbatch"
    )
    where.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="run tasks on Ray: a cluster's host:port, 'auto' for the cluster this machine is in; "
        "default: one started on this machine for the run",
    )
    group.add_argument("-p", "--partition", metavar="NAME", help="Slurm partition")
    group.add_argument(
        "-q", "--quotatype", metavar="TYPE", help="for clusters whose Slurm knows --quotatype"
    )
    group.add_argument("--qos", metavar="NAME", help="Slurm quality of service")


def check_cluster_flags(args: argparse.Namespace) -> None:
    """Raise ``ConfigError`` if flags do not go together."""
    if args.ray is not None and args.ray.endswith(".py"):
        raise ConfigError(
            f"--ray took {args.ray!r} for the address of a cluster: write the config before --ray"
        )
    if args.debug and (args.slurm or args.ray is not None):
        raise ConfigError("--debug runs tasks in this process: leave out --slurm and --ray")


def with_cluster_flags(runner: Mapping[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Return the config of a runner as the flags want it.

    Raises:
        ConfigError: A flag of Slurm, and the runner is another.

    Example:
        >>> args = argparse.Namespace(slurm=False, ray="head:6379", retry=None)
        >>> args.partition = args.quotatype = args.qos = args.max_workers_per_gpu = None
        >>> with_cluster_flags({"type": "LocalRunner", "max_num_workers": 2, "retry": 1}, args)
        {'type': 'RayRunner', 'retry': 1, 'address': 'head:6379'}
    """
    wanted = _SLURM if args.slurm else _RAY if args.ray is not None else None
    changed = dict(runner)
    if wanted is not None and our_name(changed["type"]) != wanted:
        changed = {"type": wanted, **{k: runner[k] for k in _COMMON_KEYS if k in runner}}
    if args.ray:
        changed["address"] = args.ray
    is_slurm = our_name(changed["type"]) == _SLURM
    for key, flag in _SLURM_FLAGS.items():
        value = getattr(args, key)
        if value is not None and not is_slurm:
            raise ConfigError(f"{flag} {value} is for Slurm: add --slurm")
        if value is not None:
            changed[key] = value
    if is_slurm and args.max_workers_per_gpu is not None:
        raise ConfigError("--max-workers-per-gpu: Slurm gives each job GPUs of its own")
    if args.retry is not None:
        changed["retry"] = args.retry
    return changed
