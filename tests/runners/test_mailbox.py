import os
import stat
import threading

import pytest

from opencompass_ext.errors import OutputError
from opencompass_ext.runners import mailbox
from opencompass_ext.runners.mailbox import END, Mailbox, Reader, Writer, follow_assignments


@pytest.fixture
def box(tmp_path, monkeypatch):
    monkeypatch.setattr(mailbox, "SECONDS_BETWEEN_LOOKS", 0.01)
    made = Mailbox(tmp_path / "queue" / "1" / "0")
    made.create()
    return made


def test_it_is_for_the_eyes_of_its_user_alone(box):
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (box.events.parent, box.assignments)]
    assert modes == [0o700, 0o600]


def test_a_mailbox_is_made_once(box):
    with pytest.raises(OutputError, match="queue"):
        box.create()


def test_a_reader_returns_new_lines_once_they_are_whole(box):
    writer, reader = Writer(box.events), Reader(box.events)
    assert reader.read_lines() == []
    writer.write("one\n中".encode())
    assert reader.read_lines() == [b"one"]
    writer.write("文\n\n".encode())
    assert reader.read_lines() == ["中文".encode(), b""]
    assert reader.read_lines() == []
    writer.close()


def test_assignments_come_until_the_runner_says_end(box):
    writer = Writer(box.assignments)
    seen = []
    follower = threading.Thread(
        target=lambda: seen.extend(follow_assignments(box.assignments, patience=30.0))
    )
    follower.start()
    for lines in (b"first\n", b"\n", b"second\nthi", b"rd\n", END + b"\nnever\n"):
        writer.write(lines)
    follower.join(timeout=30)
    assert seen == [b"first", b"second", b"third"]
    writer.close()


def test_a_runner_that_is_silent_is_gone(box):
    Writer(box.assignments).write(b"first\n")
    assert list(follow_assignments(box.assignments, patience=0.1)) == [b"first"]


def test_a_runner_that_has_tidied_up_is_gone(box):
    os.unlink(box.assignments)
    assert list(follow_assignments(box.assignments, patience=1000.0)) == []


def test_a_file_server_that_does_not_answer_is_silence(box, monkeypatch):
    def fail(reader):
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(Reader, "read_lines", fail)
    assert list(follow_assignments(box.assignments, patience=0.1)) == []
