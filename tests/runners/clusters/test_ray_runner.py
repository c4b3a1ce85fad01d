import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from cluster_fakes import make_tasks

from opencompass_ext.errors import ConfigError, MissingDependencyError
from opencompass_ext.outputs import RunFolder, journal_path
from opencompass_ext.records import TaskSpec
from opencompass_ext.runners import RayRunner
from opencompass_ext.running.progress import Progress


@pytest.fixture
def launch(ray_cluster, tmp_path):
    """Run NoteTasks in actors; return outcomes and notes. ``meanwhile`` runs beside them."""

    def launch(models, datasets, *, meanwhile=None, **options):
        pairs = [
            TaskSpec("cluster_fakes.NoteTask", {"abbr": abbr, **model}, (dataset,), str(tmp_path))
            for abbr, model in models.items()
            for dataset in datasets
        ]
        beside = threading.Thread(target=meanwhile) if meanwhile else None
        with Progress("infer", len(pairs)) as progress:
            if beside:
                beside.start()
            runner = RayRunner(address=ray_cluster.address, **options)
            outcomes = runner.run(pairs, progress)
        if beside:
            beside.join()
        notes = {p.name: json.loads(p.read_text()) for p in (tmp_path / "notes").glob("*")}
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


def test_an_actor_serves_all_datasets_of_a_model(launch):
    outcomes, notes = launch({"m": {}, "模型 /'": {}}, datasets("a", "b", "c"))
    assert [o.status for o in outcomes] == ["done"] * 6
    by_model = {m: {note["pid"] for name, note in notes.items() if name[0] == m} for m in "m模"}
    assert len(by_model["m"]) == len(by_model["模"]) == 1
    assert by_model["m"].isdisjoint(by_model["模"])
    assert {note["cwd"] for note in notes.values()} == {os.getcwd()}
    assert "from print in b\n" in Path(outcomes[1].log).read_text()


def test_an_actor_sees_the_gpus_that_ray_gave_it_and_has_a_thread_for_each_cpu(launch, monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    models = {f"{n} GPUs": {"run_cfg": {"num_gpus": n}} for n in (0, 1)}
    _, notes = launch(models, datasets("a"))
    assert notes["0 GPUs-a.0"]["CUDA_VISIBLE_DEVICES"] == ""
    assert notes["1 GPUs-a.0"]["CUDA_VISIBLE_DEVICES"] == "0"
    assert {note["OMP_NUM_THREADS"] for note in notes.values()} == {"1"}


def test_a_users_error_is_final_and_a_bug_is_tried_again(launch):
    outcomes, notes = launch(
        {"m": {}}, [{"abbr": "a", "do": "user_error"}, {"abbr": "b", "do": "bug_once"}]
    )
    assert [o.status for o in outcomes] == ["failed", "done"]
    assert outcomes[0].error == "data.jsonl:3: no column"
    assert set(notes) == {"m-a.0", "m-b.0", "m-b.1"}
    assert notes["m-b.0"]["pid"] != notes["m-b.1"]["pid"]


def test_an_actor_that_is_killed_costs_a_try_of_the_task_in_hand(launch):
    outcomes, notes = launch(
        {"m": {}},
        [{"abbr": "a"}, {"abbr": "b", "do": "kill_itself_once"}, {"abbr": "c", "do": "exit_3"}],
        retry=1,
        max_num_workers=1,
    )
    assert [o.status for o in outcomes] == ["done", "done", "failed"]
    assert set(notes) == {"m-a.0", "m-b.0", "m-b.1", "m-c.0", "m-c.1"}
    assert "actor died" in outcomes[2].error
    assert outcomes[2].error.endswith(": what led to it")


@pytest.mark.parametrize(("times", "deed"), [(1, "wait"), (2, "sleep")])
def test_ctrl_c_ends_all_and_calls_off_what_waits_for_room(launch, tmp_path, times, deed):
    def meanwhile():
        wait_for(lambda: len(list((tmp_path / "notes").glob("*"))) == 2)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)

    outcomes, notes = launch({"m": {}}, datasets(*"abcd", do=deed), meanwhile=meanwhile)
    assert {o.status for o in outcomes} == {"interrupted"}
    assert len(notes) == 2


def test_more_gpus_than_a_machine_has_is_one_error_before_any_task(launch, tmp_path):
    with pytest.raises(ConfigError, match=r"Note\[m/a\] asks for 2 GPUs .* more than 1"):
        launch({"m": {"run_cfg": {"num_gpus": 2}}}, datasets("a"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:9", "nothing answers at 127.0.0.1:9"),
        ("somewhere", "must be 'local', 'auto' or host:port, got 'somewhere'"),
        ("127.0.0.1:99999999", "nothing answers"),
        ("ray://localhost:10001", "Ray Client"),
    ],
)
def test_an_address_without_a_cluster_is_one_error(tmp_path, address, said):
    task = TaskSpec("cluster_fakes.NoteTask", {"abbr": "m"}, ({"abbr": "a"},), str(tmp_path))
    with pytest.raises(ConfigError, match=said):
        RayRunner(address=address).check([task])


def test_a_missing_ray_is_told_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    task = TaskSpec("cluster_fakes.NoteTask", {"abbr": "m"}, ({"abbr": "a"},), str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r'pip install "opencompass_ext\[ray\]"'):
        RayRunner().check([task])


def test_handlers_and_environment_are_as_before(launch, monkeypatch):
    monkeypatch.delenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", raising=False)
    handler, environment = signal.getsignal(signal.SIGTERM), dict(os.environ)
    launch({"m": {}}, datasets("a"))
    assert signal.getsignal(signal.SIGTERM) is handler
    assert dict(os.environ) == environment


def test_a_node_that_dies_loses_no_row_and_its_task_goes_on_elsewhere(
    ray_cluster, tmp_path, caplog
):
    rows, names = 60, "abc"
    node = ray_cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    tasks = make_tasks(tmp_path, names, rows, batch_rows=2, seconds_per_batch=0.1)
    predictions = {name: RunFolder(tmp_path).predictions("m", name) for name in names}

    def meanwhile():
        journals = [journal_path(path) for path in predictions.values()]
        wait_for(lambda: all(p.exists() and p.read_text().count("\n") > 5 for p in journals))
        ray_cluster.remove_node(node, allow_graceful=False)

    beside = threading.Thread(target=meanwhile)
    with Progress("infer", len(tasks)) as progress:
        beside.start()
        outcomes = RayRunner(address=ray_cluster.address).run(tasks, progress)
    beside.join()
    assert [o.status for o in outcomes] == ["done"] * 3
    assert caplog.text.count("trying once more") == 1  # it had one of the three in hand
    for path in predictions.values():
        found = json.loads(path.read_text())
        assert list(found) == [str(i) for i in range(rows)]
    scored = Counter((tmp_path / "scored").read_text().splitlines())
    assert len(scored) == 3 * rows
    assert scored.total() <= 3 * rows + 2  # the batch in hand
