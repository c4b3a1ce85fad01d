"""The actor's class without Ray: calls come from threads of this process."""

import os
import threading

import pytest

from opencompass_ext.runners import ray_actor
from opencompass_ext.runners.ray_actor import WorkerActor
from opencompass_ext.runners.ray_workplace import in_one_line
from opencompass_ext.tasks.protocol import Ready, event_from_line


@pytest.fixture
def actor(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_actor, "_SECONDS_OF_WAITING", 0.05)
    # The end of a worker ends its process.
    monkeypatch.setattr("opencompass_ext.tasks.worker.GRACE_SECONDS", 1e6)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SET_HERE", "here")
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return WorkerActor(
        str(tmp_path), {"SET_HERE": "there", "NOT_SET_HERE": "there"}, {"OWN": "value"}
    )


def test_what_a_machine_sets_itself_stays(actor):
    assert [os.environ[n] for n in ("SET_HERE", "NOT_SET_HERE", "OWN")] == [
        "here",
        "there",
        "value",
    ]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(RuntimeError, match=r"nowhere.*at the same path on all of them"):
        WorkerActor(str(tmp_path / "nowhere"), {}, {})


def test_events_are_kept_until_the_reader_has_them(actor):
    codes = []
    running = threading.Thread(target=lambda: codes.append(actor.run()))
    running.start()
    while not (first := actor.read_events(0)):
        pass
    assert event_from_line(first) == Ready()
    assert actor.read_events(0) == first  # the reply was lost
    assert actor.read_events(len(first)) == b""
    actor.dismiss()
    running.join(timeout=30)
    assert codes == [0]
    assert actor.read_events(len(first)) is None


def test_the_end_of_an_actor_is_one_line():
    error = RuntimeError("ray::A.run() (pid=7)\n  File x, line 3\nValueError: bad\n\tactor_id: 9\n")
    assert in_one_line(error) == "ray::A.run() (pid=7) ValueError: bad"
