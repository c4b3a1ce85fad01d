"""What is made of the answers of Slurm's programs, with programs of our own in their place."""

import os

import pytest

from opencompass_ext.runners import slurm_commands
from opencompass_ext.runners.slurm_commands import JobState, SlurmError


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts programs of our own on a PATH that has no others."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name, script):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return make


def test_states_are_asked_for_once_for_each_array(program):
    program("squeue", 'echo "17_0|RUNNING|None"; echo "17_1|PENDING|$*"')
    states = slurm_commands.query_states(["17_1", "17_0", "9_3"])
    assert states["17_0"] == JobState("RUNNING", "None")
    assert states["17_1"].reason.endswith("--format=%i|%T|%r --jobs=17,9")


def test_jobs_that_all_are_unknown_have_no_states(program):
    program("squeue", 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1')
    assert slurm_commands.query_states(["17_0"]) == {}


def test_a_controller_that_does_not_answer_is_not_taken_for_lost_jobs(program):
    program("squeue", 'echo "slurm_load_jobs error: Unable to contact controller" >&2; exit 1')
    with pytest.raises(SlurmError, match="Unable to contact controller"):
        slurm_commands.query_states(["17_0"])


def test_a_program_that_is_not_there_is_told(program):
    with pytest.raises(SlurmError, match="no program 'sbatch' on the PATH"):
        slurm_commands.check_request([])


def test_a_program_that_does_not_end_is_told(program, monkeypatch):
    monkeypatch.setattr(slurm_commands, "_TIMEOUT_SECONDS", 0.2)
    program("squeue", "while :; do :; done")
    with pytest.raises(SlurmError, match="squeue has not answered"):
        slurm_commands.query_states(["17_0"])


@pytest.mark.parametrize(
    ("answer", "jobs"),
    [("17", ["17_0", "17_1"]), ("17;far", ["17_0", "17_1"]), ("Welcome!\\n17", ["17_0", "17_1"])],
)
def test_the_number_of_a_job_is_found(program, tmp_path, answer, jobs):
    program("sbatch", f"printf '{answer}\\n'")
    assert slurm_commands.submit([], 2, tmp_path / "job.sh", ["true"], dict(os.environ)) == jobs


def test_an_answer_without_a_number_is_refused(program, tmp_path):
    program("sbatch", "echo Submitted")
    with pytest.raises(SlurmError, match=r"number of a job, got 'Submitted\\n'"):
        slurm_commands.submit([], 1, tmp_path / "job.sh", ["true"], dict(os.environ))


def test_accounting_is_asked_where_the_controller_has_forgotten(program):
    program("scontrol", "exit 1")
    assert slurm_commands.how_it_ended("17_0") is None
    program("sacct", 'case "$*" in *--jobs=17_0*) echo "TIMEOUT|0:0|n3";; esac')
    assert slurm_commands.how_it_ended("17_0") == "TIMEOUT on n3"
    assert slurm_commands.how_it_ended("18_0") is None


def test_nothing_is_called_to_cancel_no_job(program):
    slurm_commands.cancel([])
