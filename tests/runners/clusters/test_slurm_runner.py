import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.records import TaskSpec
from opencompass_ext.runners import SlurmRunner, slurm_commands, slurm_workplace
from opencompass_ext.running.progress import Progress


@pytest.fixture
def launch(slurm, tmp_path, monkeypatch):
    """Run NoteTasks in jobs; return outcomes and notes. ``meanwhile`` runs beside them."""
    monkeypatch.setattr(slurm_workplace, "SECONDS_BETWEEN_POLLS", 0.5)
    monkeypatch.setattr(slurm_workplace, "SECONDS_AFTER_REFUSAL", 0.5)

    def launch(models, datasets, *, meanwhile=None, folder=tmp_path, fail_fast=False, **options):
        folder.mkdir(exist_ok=True)
        pairs = [
            TaskSpec("cluster_fakes.NoteTask", {"abbr": abbr, **model}, (dataset,), str(folder))
            for abbr, model in models.items()
            for dataset in datasets
        ]
        beside = threading.Thread(target=meanwhile) if meanwhile else None
        with Progress("infer", len(pairs)) as progress:
            if beside:
                beside.start()
            outcomes = SlurmRunner(**options).run(pairs, progress, fail_fast=fail_fast)
        if beside:
            beside.join()
        notes = {p.name: json.loads(p.read_text()) for p in (folder / "notes").glob("*")}
        assert slurm("squeue", "--noheader") == ""
        assert list((folder / "queue").iterdir()) == []
        return outcomes, notes

    return launch


def datasets(*names, **keys):
    return [{"abbr": name, **keys} for name in names]


def wait_for(find, seconds=30):
    end = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)
    return found


def running_jobs():
    states = slurm_commands.parse_states(
        slurm_commands.call(["squeue", "-h", "-r", "-o", "%i|%T|%r"])
    )
    return [job for job, state in states.items() if state.state == "RUNNING"]


def test_an_allocation_serves_all_datasets_of_a_model(launch, tmp_path):
    outcomes, notes = launch({"m": {}, "k": {}}, datasets("a", "b", "c"), max_num_workers=2)
    assert [o.status for o in outcomes] == ["done"] * 6
    by_model = {m: {note["pid"] for name, note in notes.items() if name[0] == m} for m in "mk"}
    assert len(by_model["m"]) == len(by_model["k"]) == 1
    assert by_model["m"].isdisjoint(by_model["k"])
    assert {note["cwd"] for note in notes.values()} == {os.getcwd()}
    assert "from print in b\n" in Path(outcomes[1].log).read_text()
    assert len(list((tmp_path / "logs" / "jobs").iterdir())) == 2


def test_a_job_sees_the_gpus_and_cpus_that_slurm_gave_it(launch, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    models = {f"{n} GPUs": {"run_cfg": {"num_gpus": n}} for n in (0, 1, 2)}
    _, notes = launch(models, datasets("a"))
    seen = {name[0]: note["CUDA_VISIBLE_DEVICES"] for name, note in notes.items()}
    assert seen["0"] == ""
    assert seen["1"] in ("0", "1")
    assert seen["2"] == "0,1"
    assert {note["OMP_NUM_THREADS"] for note in notes.values()} == {"1"}


def test_jobs_that_wait_for_a_node_hold_no_task_and_are_called_off(launch):
    models = {"m": {"run_cfg": {"num_gpus": 2}}}
    outcomes, notes = launch(models, datasets(*"abcdef"), max_num_workers=6)
    assert {o.status for o in outcomes} == {"done"}
    assert len({note["pid"] for note in notes.values()}) <= 2  # two nodes of two GPUs


NAMES = [
    "with blank",
    "quo\"te's",
    "模型 / 中文",
    "$(touch hacked) `touch hacked`; touch hacked",
    "%A_%a %x JobState=COMPLETED\\",
    "--test-only",
]


def test_names_are_only_names(launch, tmp_path, monkeypatch):
    folder = tmp_path / " ".join(NAMES).replace("/", "_")
    folder.mkdir()
    monkeypatch.chdir(folder)
    models = {name: {} for name in NAMES}
    outcomes, notes = launch(models, datasets(NAMES[0]), folder=folder / "--help %A")
    assert [o.status for o in outcomes] == ["done"] * len(NAMES)
    assert len({note["pid"] for note in notes.values()}) == len(NAMES)
    assert not list(tmp_path.rglob("hacked"))


def test_after_a_users_error_the_worker_goes_on(launch):
    outcomes, notes = launch({"m": {}}, [{"abbr": "a", "do": "user_error"}, {"abbr": "b"}])
    assert [o.status for o in outcomes] == ["failed", "done"]
    assert outcomes[0].error == "data.jsonl:3: no column"
    assert set(notes) == {"m-a.0", "m-b.0"}


def test_a_worker_that_is_killed_costs_a_try(launch):
    outcomes, notes = launch({"m": {}}, datasets("a", "b", do="kill_itself_once"), retry=1)
    assert [o.status for o in outcomes] == ["done", "done"]
    assert set(notes) == {"m-a.0", "m-a.1", "m-b.0", "m-b.1"}


def test_a_worker_that_exits_is_reported_with_what_it_last_said(launch):
    outcomes, _ = launch({"m": {}}, [{"abbr": "a", "do": "exit_3"}, {"abbr": "b"}], retry=0)
    assert [o.status for o in outcomes] == ["failed", "done"]
    assert outcomes[0].error.startswith("Slurm job ")
    assert "FAILED (NonZeroExitCode, exit code 3) on n" in outcomes[0].error
    assert outcomes[0].error.endswith(": what led to it")


def test_a_job_cancelled_by_somebody_is_done_again(launch, slurm, tmp_path):
    def meanwhile():
        wait_for(lambda: (tmp_path / "notes" / "m-a.0").exists())
        slurm("scancel", *running_jobs())
        wait_for(lambda: (tmp_path / "notes" / "m-a.1").exists())
        (tmp_path / "go").touch()

    outcomes, notes = launch({"m": {}}, datasets("a", do="wait"), meanwhile=meanwhile, retry=1)
    assert [o.status for o in outcomes] == ["done"]
    assert notes["m-a.0"]["pid"] != notes["m-a.1"]["pid"]


def test_without_retry_a_cancelled_job_is_reported(launch, slurm, tmp_path):
    def meanwhile():
        wait_for(lambda: (tmp_path / "notes" / "m-a.0").exists())
        slurm("scancel", *running_jobs())

    outcomes, _ = launch({"m": {}}, datasets("a", do="wait"), meanwhile=meanwhile, retry=0)
    assert [o.status for o in outcomes] == ["failed"]
    assert "CANCELLED" in outcomes[0].error


def test_when_a_node_is_lost_its_task_is_done_on_another(launch, slurm, tmp_path):
    def meanwhile():
        note = tmp_path / "notes" / "m-a.0"
        wait_for(lambda: note.exists() and note.read_text())
        node = json.loads(note.read_text())["SLURMD_NODENAME"]
        slurm("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        try:
            wait_for(lambda: (tmp_path / "notes" / "m-a.1").exists())
            (tmp_path / "go").touch()
        finally:
            slurm("scontrol", "update", f"nodename={node}", "state=resume")

    outcomes, notes = launch({"m": {}}, datasets("a", do="wait"), meanwhile=meanwhile)
    assert [o.status for o in outcomes] == ["done"]
    assert notes["m-a.0"]["SLURMD_NODENAME"] != notes["m-a.1"]["SLURMD_NODENAME"]


def test_a_job_that_slurm_has_forgotten_is_done_again(launch, slurm, tmp_path, monkeypatch):
    """The records of a job may vanish: an old controller, or one restored from a backup."""
    forgotten = []
    query = slurm_commands.query_states

    def forgetful(jobs):
        return {job: s for job, s in query(jobs).items() if job not in forgotten}

    monkeypatch.setattr(slurm_commands, "query_states", forgetful)
    monkeypatch.setattr(slurm_commands, "how_it_ended", lambda job: None)

    def meanwhile():
        wait_for(lambda: (tmp_path / "notes" / "m-a.0").exists())
        jobs = running_jobs()
        forgotten.extend(jobs)
        slurm("scancel", "--signal=KILL", "--full", *jobs)
        wait_for(lambda: (tmp_path / "notes" / "m-a.1").exists())
        (tmp_path / "go").touch()

    outcomes, _ = launch({"m": {}}, datasets("a", do="wait"), meanwhile=meanwhile)
    assert [o.status for o in outcomes] == ["done"]


def test_a_request_that_slurm_refuses_is_one_error_before_any_job(launch, slurm, tmp_path):
    for options, models, said in (
        ({"partition": "nosuch"}, {"m": {}}, "invalid partition specified: nosuch"),
        ({"quotatype": "auto"}, {"m": {}}, "unrecognized option '--quotatype=auto'"),
        ({}, {"m": {"run_cfg": {"num_gpus": 9}}}, "9 GPUs: .*configuration is not available"),
    ):
        with pytest.raises(ConfigError, match=said):
            launch(models, datasets("a"), folder=tmp_path / "x", **options)
    assert os.listdir(tmp_path / "x") == []


def test_a_refusal_later_is_a_failure_that_names_what_slurm_said(launch, monkeypatch):
    def refuse(*args):
        raise slurm_commands.SlurmError("Job violates accounting/QOS policy")

    monkeypatch.setattr(slurm_commands, "submit", refuse)
    (outcome,) = launch({"m": {}}, datasets("a"), retry=1)[0]
    assert outcome.status == "failed"
    assert outcome.error == "no job could be queued: Job violates accounting/QOS policy"


def test_partition_and_qos_reach_slurm(launch, slurm, tmp_path):
    seen = []

    def meanwhile():
        (job,) = wait_for(running_jobs)
        seen.append(slurm("squeue", "--noheader", f"--jobs={job}", "--format=%P %j %l"))
        wait_for(lambda: (tmp_path / "notes" / "my model-a.0").exists())
        (tmp_path / "go").touch()

    launch(
        {"my model": {}},
        datasets("a", do="wait"),
        meanwhile=meanwhile,
        partition="main",
        qos="normal",
        extra_command=["--time=7"],
    )
    assert seen == ["main my_model 7:00"]


@pytest.mark.parametrize(("times", "deed"), [(1, "wait"), (2, "sleep")])
def test_ctrl_c_leaves_no_job(launch, tmp_path, times, deed):
    def meanwhile():
        wait_for(lambda: (tmp_path / "notes" / "m-a.0").exists())
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)

    outcomes, notes = launch(
        {"m": {"run_cfg": {"num_gpus": 2}}},
        datasets(*"abcd", do=deed),
        meanwhile=meanwhile,
        max_num_workers=4,
    )
    assert {o.status for o in outcomes} == {"interrupted"}
    assert len(notes) <= 2
