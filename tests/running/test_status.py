import json
import logging
import os

import pytest

from opencompass_ext.records import RowRange, TaskOutcome, TaskSpec
from opencompass_ext.running import status as status_module
from opencompass_ext.running.progress import Progress
from opencompass_ext.running.status import StatusFile


def pair(dataset, rows=None):
    return TaskSpec("T", {"abbr": "m"}, ({"abbr": dataset},), "out", rows=(rows,) if rows else ())


@pytest.fixture
def now(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(status_module.time, "monotonic", lambda: clock[0])
    return clock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "status.json"


def test_the_file_follows_the_stage(path, now):
    status = StatusFile(path)
    with Progress("infer", 4, status) as progress:
        progress.started(pair("a", RowRange(0, 8, 20)))
        progress.advanced(pair("a", RowRange(0, 8, 20)), 0, 8, 0)
        now[0] += 2
        progress.advanced(pair("a", RowRange(0, 8, 20)), 2, 8, 300)
    written = json.loads(path.read_text())
    assert written["state"] == "running"
    assert written["pid"] == os.getpid()
    assert (written["stage"], written["tasks_total"], written["tasks_ended"]) == ("infer", 4, {})
    assert written["running"] == [
        {
            "task": "T[m/a[0:8]]",
            "model": "m",
            "dataset": "a",
            "rows": [0, 8],
            "rows_done": 2,
            "rows_total": 8,
            "tokens_per_second": 150.0,
            "seconds_left": 6.0,
        }
    ]


def test_it_is_written_now_and_then_and_at_the_end(path, now):
    status = StatusFile(path, seconds_between_writes=1.0)
    with Progress("infer", 2, status) as progress:
        progress.started(pair("a"))
        first = path.stat().st_mtime_ns, path.stat().st_ino
        for _ in range(50):
            progress.tick()
        assert (path.stat().st_mtime_ns, path.stat().st_ino) == first
        now[0] += 1
        progress.tick()
        assert path.stat().st_ino != first[1]
        failed = TaskOutcome(pair("a"), "failed", "no weights", "a.out")
        progress.closed(failed, "failed")
        status.keep(progress.as_json())
    status.end("failed")
    written = json.loads(path.read_text())
    assert written["state"] == "failed"
    assert written["tasks_ended"] == {"failed": 1}
    assert written["running"] == []
    assert written["failures"] == [{"task": "T[m/a]", "error": "no weights", "log": "a.out"}]
    assert os.listdir(path.parent) == ["status.json"]


def test_a_run_goes_on_when_it_cannot_be_written(tmp_path, caplog):
    status = StatusFile(tmp_path / "gone" / "status.json", seconds_between_writes=0.0)
    for _ in range(3):
        status.follow(dict)
    status.end("done")
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1


def test_without_room_for_a_second_file_the_end_is_still_told(path, monkeypatch):
    status = StatusFile(path)
    with Progress("infer", 2, status) as progress:
        progress.started(pair("a"))
        before = path.stat().st_size

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(status_module.os, "replace", full)
        for number in range(40):
            status.add_failure(TaskOutcome(pair(f"{number}"), "failed", "disk full"))
    status.end("failed")
    written = json.loads(path.read_text())
    assert (written["state"], written["failures"]) == ("failed", [])
    assert path.stat().st_size == before
