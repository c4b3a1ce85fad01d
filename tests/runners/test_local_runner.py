import fcntl
import io
import json
import os
import time
from pathlib import Path

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.outputs import RunFolder
from opencompass_ext.partitioners import NaivePartitioner
from opencompass_ext.records import TaskSpec
from opencompass_ext.runners import LocalRunner, RayRunner, SlurmRunner, local
from opencompass_ext.running.progress import Progress


@pytest.fixture
def launch(tmp_path):
    """Run EchoTasks; return their outcomes and what each noted, by "model-dataset.try"."""

    def launch(models, datasets, *, fail_fast=False, n=1, **options):
        tasks = NaivePartitioner(n).partition(
            [{"abbr": abbr, **model} for abbr, model in models.items()],
            datasets,
            task_type="runner_fakes.EchoTask",
            run_folder=str(tmp_path),
        )
        with Progress("infer", len(tasks)) as progress:
            outcomes = LocalRunner(**options).run(tasks, progress, fail_fast=fail_fast)
        notes = {p.name: json.loads(p.read_text()) for p in (tmp_path / "notes").glob("*")}
        return outcomes, notes

    return launch


def datasets(*names, **keys):
    return [{"abbr": name, **keys} for name in names]


def test_outcomes_come_in_order_one_per_pair(launch):
    outcomes, _ = launch({"m": {}, "k": {}}, datasets("b", "a", "c"), n=2, max_num_workers=2)
    names = [(o.task.model["abbr"], o.task.datasets[0]["abbr"]) for o in outcomes]
    assert names == [(m, d) for m in "mk" for d in "bac"]
    assert {o.status for o in outcomes} == {"done"}


def test_a_worker_keeps_one_model_for_all_its_datasets(launch):
    _, notes = launch({"m": {}, "k": {}}, datasets("a", "b", "c"))
    by_model = {m: {note["pid"] for name, note in notes.items() if name[0] == m} for m in "mk"}
    assert len(by_model["m"]) == len(by_model["k"]) == 1
    assert by_model["m"].isdisjoint(by_model["k"])


def test_what_a_model_has_to_tell_reaches_the_user_and_the_log(launch, caplog, tmp_path):
    (outcome,), _ = launch({"m": {}}, datasets("a", do="tell"))
    told = [r for r in caplog.records if "licence" in r.getMessage()]
    assert [(r.levelname, r.getMessage()) for r in told] == [
        ("WARNING", "Echo[m/a]: a licence: 中")
    ]
    assert "a detail" not in caplog.text
    assert "its own affair" not in caplog.text
    log = Path(outcome.log).read_text(encoding="utf-8")
    assert "a licence: 中" in log
    assert "its own affair" in log


def test_workers_work_at_the_same_time(launch, monkeypatch):
    monkeypatch.setattr(local, "cpu_cores", lambda: 2)
    launch({"m": {}}, datasets("a", "b", do="meet", others=2), max_num_workers=2)


def test_never_more_workers_than_asked_for(launch):
    _, notes = launch({"m": {}, "k": {}}, datasets(*"abcd", do="nap"), max_num_workers=2)
    assert max(note["at_once"] for note in notes.values()) <= 2


def test_cpu_workers_see_no_gpu_and_share_the_cores(launch, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    _, notes = launch({"m": {}}, datasets("a", "b", "c"), max_num_workers=2)
    cores = len(os.sched_getaffinity(0))
    assert {note["devices"] for note in notes.values()} == {""}
    assert {note["threads"] for note in notes.values()} == {str(max(1, cores // 2))}


@pytest.mark.parametrize(
    ("visible", "num_gpus", "given"),
    [
        ("GPU-5d5b", 1, "GPU-5d5b"),
        ("MIG-ab/1/0", 1, "MIG-ab/1/0"),
        ("2,0", 2, "2,0"),
        ("2,0", 1, "2"),
        ("3,GPU-5d5b,MIG-ab/1/0", 2, "3,GPU-5d5b"),
    ],
)
def test_gpu_entries_are_passed_on_verbatim(launch, monkeypatch, visible, num_gpus, given):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    _, notes = launch({"m": {"run_cfg": {"num_gpus": num_gpus}}}, datasets("a"))
    assert notes["m-a.0"]["devices"] == given


def test_two_workers_never_share_a_gpu_unless_allowed(launch, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    one_gpu = {"m": {"run_cfg": {"num_gpus": 1}}, "k": {"run_cfg": {"num_gpus": 1}}}
    _, notes = launch(one_gpu, datasets("a", "b", do="nap"), max_num_workers=4)
    assert {note["at_once"] for note in notes.values()} == {1}
    launch(one_gpu, datasets("c", do="meet", others=2), max_num_workers=4, max_workers_per_gpu=2)


def test_gpus_go_to_one_worker_each(launch, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,2")
    model = {"m": {"run_cfg": {"num_gpus": 1}}}
    _, notes = launch(model, datasets("a", "b", do="meet", others=2), max_num_workers=4)
    assert {note["devices"] for note in notes.values()} == {"4", "2"}


@pytest.mark.parametrize("visible", ["", "-1"])
def test_more_gpus_than_exist_is_one_error_before_any_launch(
    launch, monkeypatch, tmp_path, visible
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    models = {"small": {}, "big": {"run_cfg": {"num_gpus": 4}}}
    with pytest.raises(ConfigError, match=r"Echo\[big/a\] asks for 4 GPUs .* offers 0"):
        launch(models, datasets("a"))
    assert os.listdir(tmp_path) == []


def test_all_output_goes_to_the_log_of_its_task(launch, capfd):
    outcomes, _ = launch({"m": {}}, datasets("a", "b", do="speak"))
    for name, outcome in zip("ab", outcomes, strict=True):
        text = Path(outcome.log).read_text()
        assert f"from print in {name}\n" in text
        for said in ("from native code\n", "from native code's stderr\n", "from a child\n"):
            assert text.count(said) == 1
    assert "native" not in "".join(capfd.readouterr())


def test_a_task_cannot_read_what_the_runner_sends(launch):
    _, notes = launch({"m": {}}, datasets("a", "b"))
    assert {note["stdin"] for note in notes.values()} == {""}


def test_after_a_users_error_the_worker_goes_on(launch):
    outcomes, notes = launch({"m": {}}, [{"abbr": "a", "do": "user_error"}, {"abbr": "b"}], retry=2)
    assert [o.status for o in outcomes] == ["failed", "done"]
    assert outcomes[0].error == "data.jsonl:3: no column 'text'"
    assert len({note["pid"] for note in notes.values()}) == 1
    assert set(notes) == {"m-a.0", "m-b.0"}


def test_after_a_bug_the_next_dataset_gets_a_fresh_worker(launch):
    outcomes, notes = launch({"m": {}}, [{"abbr": "a", "do": "bug"}, {"abbr": "b"}])
    assert [o.status for o in outcomes] == ["failed", "done"]
    assert outcomes[0].error == "KeyError: 'what'"
    assert notes["m-a.0"]["pid"] != notes["m-b.0"]["pid"]


def test_a_failure_that_passes_is_mended_by_a_retry(launch, caplog):
    outcomes, notes = launch({"m": {}}, datasets("a", do="bug_once"), retry=1)
    assert [o.status for o in outcomes] == ["done"]
    assert notes["m-a.0"]["pid"] != notes["m-a.1"]["pid"]
    assert "CUDA error: device-side assert; trying once more" in caplog.text


@pytest.mark.parametrize(
    ("deed", "error"),
    [
        ("exit_3", "the worker ended with exit code 3: what led to it"),
        ("segfault", "the worker was killed by SIGSEGV"),
        (
            "die_with_a_child_left",
            "the worker was killed by SIGKILL (often the system running out of memory)",
        ),
    ],
)
def test_a_dead_worker_fails_its_own_dataset_alone(launch, deed, error):
    outcomes, _ = launch({"m": {}}, [{"abbr": "a", "do": deed}, {"abbr": "b"}])
    assert [o.status for o in outcomes] == ["failed", "done"]
    assert outcomes[0].error == error


@pytest.mark.parametrize("deed", ["die_with_a_child_left", "leave_a_child"])
def test_a_worker_leaves_no_process_behind(launch, tmp_path, deed):
    launch({"m": {}}, datasets("a", do=deed))
    with open(tmp_path / "lock") as file:
        end = time.monotonic() + 10
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < end, "the child is there still"
                time.sleep(0.05)


def test_fail_fast_skips_what_has_not_started(launch):
    plan = [{"abbr": "a", "do": "user_error"}, {"abbr": "b"}, {"abbr": "c"}]
    outcomes, notes = launch({"m": {}, "k": {}}, plan, fail_fast=True)
    assert [o.status for o in outcomes] == ["failed"] + ["skipped"] * 5
    assert set(notes) == {"m-a.0"}


def test_processes_of_one_model_share_its_gpus_and_count_as_one_worker(launch, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0,7")
    models = {"m": {"run_cfg": {"num_gpus": 2, "num_procs": 2}}}
    _, notes = launch(models, datasets("a", "b", do="meet", others=2), max_num_workers=1)
    assert {note["devices"] for note in notes.values()} == {"2", "0"}


def test_two_models_of_two_processes_are_two_workers(launch, monkeypatch):
    monkeypatch.setattr(local, "cpu_cores", lambda: 8)
    run_cfg = {"num_procs": 2}
    models = {"m": {"run_cfg": run_cfg}, "k": {"run_cfg": run_cfg}, "l": {}}
    _, notes = launch(models, datasets(*"abcd", do="nap"), max_num_workers=2)
    assert max(note["at_once"] for note in notes.values()) <= 4


def test_without_gpus_there_are_no_more_workers_than_cores(launch, monkeypatch):
    monkeypatch.setattr(local, "cpu_cores", lambda: 1)
    models = {"m": {}, "k": {}}
    _, notes = launch(models, datasets("a", "b", do="nap"), max_num_workers=4)
    assert {note["at_once"] for note in notes.values()} == {1}


def test_a_model_on_a_server_needs_no_core(launch, monkeypatch):
    monkeypatch.setattr(local, "cpu_cores", lambda: 1)
    models = {"m": {"type": "runner_fakes.Remote"}}
    launch(models, datasets("a", "b", do="meet", others=2), max_num_workers=2)


def test_a_task_that_takes_too_long_is_killed_and_tried_once_more(launch):
    plan = [{"abbr": "a", "do": "hang_once"}, {"abbr": "b"}, {"abbr": "c", "do": "hang"}]
    outcomes, notes = launch({"m": {}}, plan, timeout=1.0, retry=1)
    assert [o.status for o in outcomes] == ["done", "done", "failed"]
    assert outcomes[2].error == "took longer than the timeout of 1 s; finished rows are kept"
    assert {"m-a.1", "m-c.1"} <= set(notes)


def test_a_model_that_cannot_be_loaded_fails_once_for_all_its_datasets(launch, caplog, tmp_path):
    kept = RunFolder(tmp_path).predictions("m", "d")
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    plan = datasets("a", "b", "c", do="no_model") + datasets("d")
    outcomes, notes = launch({"m": {}, "k": {}}, plan)
    assert [(o.status, o.error) for o in outcomes[:4]] == [
        *[("failed", "no weights here")] * 3,
        ("done", None),
    ]
    assert [o.status for o in outcomes[4:]] == ["failed"] * 4
    assert set(notes) == {"m-a.0", "m-d.0", "k-a.0"}
    assert {o.log for o in outcomes[:3]} == {outcomes[0].log}
    assert "model 'm' cannot be loaded, so these fail too: Echo[m/b], Echo[m/c]" in caplog.text


def test_debug_tries_a_model_that_cannot_be_loaded_once(launch, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    outcomes, notes = launch({"m": {}}, datasets("a", "b", do="no_model"), debug=True)
    assert [(o.status, o.error) for o in outcomes] == [("failed", "no weights here")] * 2
    assert set(notes) == {"m-a.0"}


def test_debug_runs_in_this_process_and_restores_the_environment(launch, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5d5b,1")
    plan = [{"abbr": "a"}, {"abbr": "b", "do": "bug"}, {"abbr": "c"}]
    monkeypatch.setattr("sys.stdin", io.StringIO())
    outcomes, notes = launch({"m": {"run_cfg": {"num_gpus": 1}}}, plan, debug=True)
    assert [o.status for o in outcomes] == ["done", "failed", "done"]
    assert {note["pid"] for note in notes.values()} == {os.getpid()}
    assert {note["devices"] for note in notes.values()} == {"GPU-5d5b"}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-5d5b,1"
    assert "KeyError" in capsys.readouterr().err


@pytest.mark.parametrize("runner", [LocalRunner, RayRunner, SlurmRunner])
def test_debug_asks_for_the_gpus_of_this_machine_whatever_the_runner(runner, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    model = {"abbr": "m", "run_cfg": {"num_gpus": 2}}
    task = TaskSpec("runner_fakes.EchoTask", model, ({"abbr": "a"},), "outputs/x")
    with pytest.raises(ConfigError, match=r"asks for 2 GPUs .* offers 1"):
        runner(debug=True).check([task])


@pytest.mark.parametrize(
    "options",
    [
        {"max_num_workers": 0},
        {"max_workers_per_gpu": 1.5},
        {"retry": -1},
        {"timeout": 0},
        {"timeout": "60"},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        LocalRunner(**options)


def test_a_type_that_is_no_task():
    spec = TaskSpec("runner_fakes.NoTask", {"abbr": "m"}, ({"abbr": "d"},), "x")
    with pytest.raises(ConfigError, match="must derive from BaseTask"):
        LocalRunner().run([spec], Progress("infer", 1))


def test_nothing_to_do():
    assert LocalRunner().run([], Progress("infer", 0)) == []
