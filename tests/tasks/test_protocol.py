import pytest

from opencompass_ext.errors import DataError
from opencompass_ext.records import RowRange, TaskSpec
from opencompass_ext.tasks.protocol import (
    Assignment,
    Done,
    Failed,
    Progressed,
    Ready,
    Said,
    event_from_line,
    event_to_line,
    failure,
)


@pytest.mark.parametrize(
    "event",
    [
        Ready(),
        Progressed(1, 2, 3),
        Done("reused"),
        Said(30, "a licence"),
        Failed("line\nbreak 中 \ud800", is_users=True),
    ],
)
def test_events_arrive_as_they_were_sent(event):
    line = event_to_line(event)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert event_from_line(line) == event


def test_an_assignment_arrives_as_it_was_sent():
    datasets = ({"abbr": "d", "x": [1, None]}, {"abbr": "e"})
    rows = (None, RowRange(2, 5, 9))
    spec = TaskSpec("T", {"abbr": "m\n中"}, datasets, "run", {"o": True}, rows)
    line = Assignment(spec, "a log").to_line()
    assert line.count(b"\n") == 1
    assert Assignment.from_line(line) == Assignment(spec, "a log")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DataError("file.jsonl:3\n  no text"), Failed("file.jsonl:3 no text", is_users=True)),
        (ValueError("\n first\nsecond"), Failed("ValueError: first", is_users=False)),
        (AssertionError(), Failed("AssertionError", is_users=False)),
    ],
)
def test_an_error_is_told_in_one_line(error, told):
    assert failure(error) == told
