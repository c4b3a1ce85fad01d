import io
import logging

import pytest
from rich.console import Console

from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.running import progress as progress_module
from opencompass_ext.running.displays import LiveProgress, PlainProgress, stage_progress
from opencompass_ext.running.meter import Meter


def pair(dataset, model="m"):
    return TaskSpec("OpenICLInferTask", {"abbr": model}, ({"abbr": dataset},), "out")


@pytest.fixture
def now(monkeypatch):
    """A clock that the test sets."""
    clock = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    return clock


def test_a_meter_knows_nothing_before_the_first_batch():
    meter = Meter(now=0.0)
    assert (meter.speed, meter.time_left, meter.fraction) == ("", "", 0.0)
    meter.update(0, 0, 0, now=1.0)
    assert (meter.speed, meter.time_left, meter.fraction) == ("", "", 0.0)


def test_rows_of_an_earlier_run_are_not_speed():
    fresh, resumed = Meter(now=0.0), Meter(now=0.0)
    fresh.update(0, 20, 0, now=1.0)
    resumed.update(80, 100, 0, now=1.0)
    fresh.update(10, 20, 500, now=6.0)
    resumed.update(90, 100, 500, now=6.0)
    assert fresh.time_left == resumed.time_left == "0:05 left"
    assert fresh.speed == resumed.speed == "100 tokens/s"
    assert resumed.rows == "90/100 rows"


def test_plain_lines_come_every_few_seconds(now, caplog):
    caplog.set_level(logging.INFO)
    with PlainProgress("infer", 2, seconds_between_lines=10.0) as progress:
        progress.started(pair("a"))
        for second in range(26):
            now[0] = 100.0 + second
            progress.advanced(pair("a"), second, 50, 100 * second)
        progress.closed(TaskOutcome(pair("a"), "done", seconds=25.0), "done")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "OpenICLInfer[m/a] started",
        "OpenICLInfer[m/a]: 10/50 rows, 100 tokens/s, 0:40 left",
        "OpenICLInfer[m/a]: 20/50 rows, 100 tokens/s, 0:30 left",
        "OpenICLInfer[m/a] done (1/2 tasks, 0:25 left)",
        "infer: 1 done in 0:25",
    ]


def test_the_time_left_of_a_stage_leaves_out_what_was_done_before(now):
    progress = PlainProgress("infer", 4)
    progress.started(pair("a"))
    progress.closed(TaskOutcome(pair("a"), "done"), "reused")
    assert progress.time_left == ""
    progress.started(pair("b"))
    progress.advanced(pair("b"), 50, 100, 0)
    now[0] += 10
    progress.advanced(pair("b"), 75, 100, 50)  # a quarter of a pair in 10 s, 2.25 pairs to go
    assert progress.time_left == "1:30 left"
    now[0] += 10
    progress.closed(TaskOutcome(pair("b"), "done"), "done")
    assert progress.time_left == "1:20 left"


def test_a_failure_is_told_with_its_error(caplog):
    with PlainProgress("infer", 1) as progress:
        progress.started(pair("a"))
        progress.closed(TaskOutcome(pair("a"), "failed", "no file", seconds=1.25), "failed")
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert errors == ["OpenICLInfer[m/a] failed after 1.2 s: no file (1/1 tasks, 1 failed)"]


def test_a_task_in_this_process_reports_too(now):
    progress = PlainProgress("infer", 1)
    progress.started(pair("a"))
    progress.reporter(pair("a"))(3, 4, 0)
    assert progress.meters["OpenICLInfer[m/a]"].fraction == 0.75


def test_the_live_display_shows_rows_speed_and_time_left(now):
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with LiveProgress("infer", 2, console) as progress:
        progress.started(pair("data [red]set", model="mod[el]"))
        progress.advanced(pair("data [red]set", model="mod[el]"), 0, 8, 0)
        now[0] += 10
        progress.advanced(pair("data [red]set", model="mod[el]"), 4, 8, 2000)
        progress._display.refresh()
        shown = console.file.getvalue()
        progress.closed(TaskOutcome(pair("data [red]set", model="mod[el]"), "done"), "done")
        progress._display.refresh()
    for text in ("mod[el] / data [red]set", "4/8 rows", "200 tokens/s", "0:10 left", "0/2 tasks"):
        assert text in shown
    assert "1/2 tasks" in console.file.getvalue()


def test_a_terminal_gets_the_live_display_and_a_file_plain_lines():
    terminal = Console(file=io.StringIO(), force_terminal=True)
    file = Console(file=io.StringIO())
    kinds = [
        type(stage_progress("infer", [pair("a")], console, is_live=is_live))
        for console, is_live in ((terminal, True), (terminal, False), (file, True))
    ]
    assert kinds == [LiveProgress, PlainProgress, PlainProgress]
