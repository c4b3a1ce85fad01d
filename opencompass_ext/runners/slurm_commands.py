"""The programs of Slurm that the runner calls, and what they answer.

Every program gets a list of arguments and no shell sees a name. Jobs are named by array and index,
``"17_0"``, as ``squeue -r`` does.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# The programs give up by themselves when the controller does not answer.
_TIMEOUT_SECONDS = 120.0
# States that a job does not leave again: it is never queued a second time (--no-requeue).
ENDED_STATES = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)


class SlurmError(Exception):
    """A program of Slurm has refused, failed or not answered; the text is what it said."""


class JobState(NamedTuple):
    """State of a job, ``"PENDING"`` or the like, and why it is in that state, ``"Priority"``."""

    state: str
    reason: str


def call(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    text: str | None = None,
) -> str:
    """Return the standard output of a program.

    Args:
        command: The program and its arguments.
        environment: Its environment; this process's own when None.
        text: Its standard input; none when None.

    Raises:
        SlurmError: It has failed, is not there, or does not end.
    """
    program = command[0]
    try:
        done = subprocess.run(
            command,
            env=environment,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise SlurmError(f"there is no program {program!r} on the PATH of this machine") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{program} has not answered for {_TIMEOUT_SECONDS:.0f} s") from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise SlurmError(said or f"{program} failed with exit code {done.returncode}")
    return done.stdout


def check_request(options: Sequence[str]) -> None:
    """Ask whether Slurm would take a job with these options of ``sbatch``. Nothing is queued.

    Raises:
        SlurmError: It would not.
    """
    call(["sbatch", "--test-only", *options], text="#!/bin/sh\n")


def submit(
    options: Sequence[str],
    count: int,
    script: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
) -> list[str]:
    """Queue a job array and return the names of its jobs, in order.

    Args:
        options: Options of ``sbatch``.
        count: Number of jobs.
        script: A shell script that runs its arguments as a command.
        arguments: That command.
        environment: Environment of the command.

    Raises:
        SlurmError: Slurm does not take it.
    """
    array = ["--parsable", f"--array=0-{count - 1}", "--export=ALL"]
    answer = call(
        ["sbatch", *options, *array, str(script), *arguments],
        environment=environment,
    )
    # "17", or "17;cluster" where there are several clusters; after what a site has to say.
    job = answer.strip().rpartition("\n")[2].partition(";")[0]
    if not job.isdecimal():
        raise SlurmError(f"sbatch should answer with the number of a job, got {answer!r:.200}")
    return [f"{job}_{index}" for index in range(count)]


def query_states(jobs: Iterable[str]) -> dict[str, JobState]:
    """Return the states of those jobs that the controller still remembers.

    It forgets jobs some minutes after their end.

    Raises:
        SlurmError: The controller does not answer.
    """
    arrays = sorted({job.partition("_")[0] for job in jobs})
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r"]
    try:
        answer = call([*command, f"--jobs={','.join(arrays)}"])
    except SlurmError as error:
        if "Invalid job id" in str(error):  # it knows none of them
            return {}
        raise
    return parse_states(answer)


def parse_states(answer: str) -> dict[str, JobState]:
    r"""Return the states in the lines ``job|state|reason``.

    Example:
        >>> parse_states("17_0|RUNNING|None\n17_1|PENDING|Priority\n")["17_1"]
        JobState(state='PENDING', reason='Priority')
    """
    rows = (line.split("|", 2) for line in answer.splitlines() if line.count("|") >= 2)
    return {job.strip(): JobState(state, reason) for job, state, reason in rows}


def cancel(jobs: Sequence[str], *, only_pending: bool = False) -> None:
    """End jobs. Those that have ended already, or do not exist, are passed over.

    Args:
        jobs: The jobs.
        only_pending: Leave those alone that have started.

    Raises:
        SlurmError: The controller does not answer.
    """
    if jobs:
        call(["scancel", "--quiet", *(["--state=PENDING"] if only_pending else []), *jobs])


def how_it_ended(job: str) -> str | None:
    """Return the end of a job in words, or None when neither controller nor accounting knows it."""
    try:
        return parse_job(call(["scontrol", "--oneliner", "show", "job", job]))
    except SlurmError:
        pass
    try:
        command = ["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}"]
        answer = call([*command, "--format=State,ExitCode,NodeList"]).strip()
    except SlurmError:  # most often: no accounting here
        return None
    return parse_accounting(answer)


def parse_job(answer: str) -> str | None:
    """Return the end of a job from the answer of ``scontrol show job``.

    The name of the job must not have blanks: it stands before the fields that are looked for.

    Example:
        >>> parse_job("JobId=7 JobName=x JobState=FAILED Reason=NonZeroExitCode ExitCode=7:0 "
        ...           "NodeList=n1 BatchHost=n1 Command=/x ExitCode=1:1")
        'FAILED (NonZeroExitCode, exit code 7) on n1'
    """
    fields: dict[str, str] = {}
    for name, value in re.findall(r"(?:^|\s)(JobState|Reason|ExitCode|NodeList)=(\S*)", answer):
        fields.setdefault(name, value)
    if "JobState" not in fields:
        return None
    reason = fields.get("Reason", "None")
    details = [] if reason == "None" else [reason]
    return _end(fields["JobState"], details, fields.get("ExitCode", ""), fields.get("NodeList", ""))


def parse_accounting(answer: str) -> str | None:
    """Return the end of a job from the answer of ``sacct``, a line ``state|exit code|nodes``.

    Example:
        >>> parse_accounting("CANCELLED by 0|0:15|n2")
        'CANCELLED by 0 (signal 15) on n2'
    """
    lines = answer.splitlines()
    if not lines or lines[0].count("|") != 2:
        return None
    state, exit_code, nodes = lines[0].split("|")
    return _end(state, [], exit_code, nodes)


def _end(state: str, details: list[str], exit_code: str, nodes: str) -> str:
    """Put an end into words; ``exit_code`` is written ``code:signal``."""
    code, _, number = exit_code.partition(":")
    if number not in ("", "0"):
        details = [*details, f"signal {number}"]
    elif code not in ("", "0"):
        details = [*details, f"exit code {code}"]
    where = f" on {nodes}" if nodes not in ("", "(null)", "None assigned") else ""
    return f"{state} ({', '.join(details)}){where}" if details else f"{state}{where}"
