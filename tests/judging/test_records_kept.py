"""What was said is kept: over a kill, over runs, and never a failure in the place of an answer."""

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from opencompass_ext.errors import OutputError
from opencompass_ext.judging import Decompose, Match, ScriptedJudge, Source, transcript
from opencompass_ext.judging.prompts import templates as templates_module
from opencompass_ext.judging.session import JudgeSession

SOURCE = Source("s1", "The tower stands in Paris.")
TRUE, FALSE = "The tower stands in Paris.", "The tower is made of cheese."


def questions(count, kind="supported"):
    return [
        Match(kind, (TRUE, FALSE), query=f"Query {i}?", sources=(SOURCE,)) for i in range(count)
    ]


def test_scoring_again_makes_no_call_and_gives_the_same(open_session):
    first = open_session()
    answers = first.match(questions(5))
    units = first.decompose([Decompose("claims", "One. Two.")])
    first.close()
    judge = ScriptedJudge()
    second = open_session(judge)
    assert second.match(questions(5)) == answers
    assert second.decompose([Decompose("claims", "One. Two.")]) == units
    assert judge.calls == []


def test_unreadable_replies_are_read_again_not_asked_again(open_session):
    first = open_session(ScriptedJudge(faults={"tower": ["prose", "prose"]}))
    answers = first.match(questions(1))
    first.close()
    judge = ScriptedJudge()
    assert open_session(judge).match(questions(1)) == answers
    assert [v.reason for v in answers[0]] == ["judge_error"] * 2
    assert judge.calls == []


def test_only_requests_without_a_reply_are_asked_again(open_session):
    first = open_session(ScriptedJudge(faults={"Query 1?": "timeout", "Query 3?": "rate_limited"}))
    first.match(questions(5))
    first.close()
    judge = ScriptedJudge()
    answers = open_session(judge).match(questions(5))
    assert [[v.is_yes for v in verdicts] for verdicts in answers] == [[True, False]] * 5
    assert len(judge.calls) == 2


def test_a_larger_limit_asks_again_only_for_what_was_cut(open_session):
    first = open_session(ScriptedJudge(faults={"Query 1?": ["cut"] * 9}, max_tokens=100))
    answers = first.match(questions(3))
    first.close()
    assert {v.reason for v in answers[1]} == {"judge_truncated"}
    same = ScriptedJudge(max_tokens=100)
    second = open_session(same)
    assert second.match(questions(3)) == answers
    second.close()
    assert same.calls == []
    larger = ScriptedJudge(max_tokens=400)
    again = open_session(larger).match(questions(3))
    assert [[v.is_yes for v in verdicts] for verdicts in again] == [[True, False]] * 3
    assert ["Query 1?" in call.messages[0]["content"] for call in larger.calls] == [True]


def test_a_reply_that_could_be_used_is_whole_whatever_its_end_is_called(open_session):
    class Unsaid(ScriptedJudge):
        def ask(self, calls):
            for number, reply in super().ask(calls):
                yield number, replace(reply, finish_reason=None)

    open_session(Unsaid(max_tokens=100)).match(questions(2))
    larger = Unsaid(max_tokens=400)
    open_session(larger).match(questions(2))
    assert larger.calls == []


def test_a_second_process_waits_for_the_transcript_and_finds_the_replies(
    open_session, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(transcript, "IDLE_SECONDS", 0.2)
    first = open_session(transcript="t.jsonl")
    first.match(questions(1))
    with pytest.raises(OutputError, match=r"another process is judging into .*t\.jsonl"):
        JudgeSession(ScriptedJudge(), tmp_path / "t.jsonl")
    assert "waiting for another process that is writing" in caplog.text
    first.close()
    judge = ScriptedJudge()
    with JudgeSession(judge, tmp_path / "t.jsonl") as second:
        second.match(questions(1))
    assert judge.calls == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.jsonl"]


RUN = """
import json, sys
from pathlib import Path
from opencompass_ext.judging import Match, ScriptedJudge, Source
from opencompass_ext.judging.session import JudgeSession

source = Source("s1", "The tower stands in Paris.")
claims = ("The tower stands in Paris.", "The tower is made of cheese.")
asked = [Match("supported", claims, query=f"Query {i}?", sources=(source,)) for i in range(10)]
judge = ScriptedJudge(die_after=int(sys.argv[2]) or None)
with JudgeSession(judge, Path(sys.argv[1])) as session:
    answers = session.match(asked)
    print(json.dumps([len(judge.calls), [[v.is_yes for v in row] for row in answers]]))
"""


def run(transcript, die_after):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN), str(transcript), str(die_after)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )


def test_a_killed_run_goes_on_with_what_is_missing(tmp_path, open_session):
    killed = run(tmp_path / "t.jsonl", die_after=7)
    assert killed.returncode == -signal.SIGKILL
    with open(tmp_path / "t.jsonl", "ab") as file:
        file.write(b'{"request": "torn')
    gone_on = run(tmp_path / "t.jsonl", die_after=0)
    whole = run(tmp_path / "whole.jsonl", die_after=0)
    calls, answers = json.loads(gone_on.stdout)
    assert calls == 3
    assert "torn last line dropped" in gone_on.stderr
    assert json.loads(whole.stdout) == [10, answers]

    def requests(name):
        lines = (tmp_path / name).read_text("utf-8").splitlines()
        return [(row["request"], row["reply"]) for row in map(json.loads, lines)]

    assert requests("t.jsonl") == requests("whole.jsonl")


def test_damaged_lines_are_left_out_and_asked_again(open_session, tmp_path, caplog):
    first = open_session()
    answers = first.match(questions(3))
    first.close()
    path = tmp_path / "transcript.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:20] + b"\n"
    path.write_bytes(b"".join(lines))
    judge = ScriptedJudge()
    assert open_session(judge).match(questions(3)) == answers
    assert len(judge.calls) == 1
    assert "1 damaged lines left out" in caplog.text


def test_a_row_of_the_transcript_tells_all(open_session, rows):
    open_session(units_per_call=1).match(questions(1)[:1])
    (row, _) = rows()
    assert row["kind"] == "supported"
    assert row["messages"][0]["content"].count(TRUE) == 2
    assert json.loads(row["reply"])["verdicts"][0]["verdict"] == "yes"
    assert row["parsed"] == [{"id": 1, "verdict": "yes"}]
    assert (row["problem"], row["from"], row["attempts"], row["part"]) == (None, "judge", 1, [1, 1])
    assert row["usage"]["input_tokens"] > 0


def test_a_transcript_that_cannot_be_written_is_one_clear_error(open_session, tmp_path):
    (tmp_path / "t.jsonl").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*t\.jsonl"):
        open_session(transcript="t.jsonl")


# The cache over runs.


def test_a_second_run_with_the_cache_makes_no_call(open_session, rows):
    first = open_session(transcript="1.jsonl", cache="cache.db")
    answers = first.match(questions(4))
    first.close()
    judge = ScriptedJudge()
    second = open_session(judge, transcript="2.jsonl", cache="cache.db")
    assert second.match(questions(4)) == answers
    assert judge.calls == []
    assert {row["from"] for row in rows("2.jsonl")} == {"cache"}
    usage = second.usage()["supported"]
    assert set(usage) == {"cache"}
    assert usage["cache"]["calls"] == 4


def test_tokens_are_counted_by_where_the_answer_came_from(open_session):
    first = open_session(transcript="1.jsonl", cache="cache.db")
    first.match(questions(2))
    first.close()
    second = open_session(transcript="2.jsonl", cache="cache.db")
    second.match(questions(3))
    second.match(questions(1))
    calls = {origin: sums["calls"] for origin, sums in second.usage()["supported"].items()}
    assert calls == {"judge": 1, "cache": 2, "transcript": 1}


@pytest.mark.parametrize("fault", ["timeout", "prose", "unreadable", "missing", "cut"])
def test_failures_are_never_cached(open_session, fault):
    judge = ScriptedJudge(faults={"Query 0?": [fault] * 3})
    first = open_session(judge, transcript="1.jsonl", cache="cache.db")
    first.match(questions(2))
    first.close()
    judge = ScriptedJudge()
    second = open_session(judge, transcript="2.jsonl", cache="cache.db")
    answers = second.match(questions(2))
    assert [[v.is_yes for v in verdicts] for verdicts in answers] == [[True, False]] * 2
    assert len(judge.calls) == 1


@pytest.mark.parametrize(
    "changed",
    [
        dict(judge=ScriptedJudge(path="another model")),
        dict(units_per_call=1),
        dict(lang="zh"),
    ],
    ids=["judge", "batches", "language"],
)
def test_what_can_change_the_answer_misses_the_cache(open_session, changed):
    open_session(transcript="1.jsonl", cache="cache.db").match(questions(1))
    changed = {"judge": ScriptedJudge(), **changed}
    open_session(transcript="2.jsonl", cache="cache.db", **changed).match(questions(1))
    assert changed["judge"].calls


def test_a_changed_prompt_word_misses_its_own_entries_alone(open_session, monkeypatch, tmp_path):
    open_session(transcript="1.jsonl", cache="cache.db").match(questions(2))
    open_session(transcript="1.jsonl", cache="cache.db").match(questions(3, "covers"))
    original = templates_module.load_templates("en")
    texts = {**original.texts, "covers": original.texts["covers"].replace("decide", "judge")}
    monkeypatch.setattr(
        "opencompass_ext.judging.session.load_templates",
        lambda lang: replace(original, texts=texts),
    )
    judge = ScriptedJudge()
    session = open_session(judge, transcript="2.jsonl", cache="cache.db")
    session.match(questions(2))
    assert judge.calls == []
    session.match(questions(3, "covers"))
    assert [call.kind for call in judge.calls] == ["covers"] * 3


def test_the_cache_is_plain_and_holds_no_pickle(open_session, tmp_path):
    session = open_session(cache="cache.db")
    session.match(questions(1))
    session.close()
    with sqlite3.connect(tmp_path / "cache.db") as database:
        ((kind, messages, reply),) = database.execute("SELECT kind, messages, reply FROM replies")
    database.close()
    assert kind == "supported"
    assert json.loads(messages)[0]["role"] == "user"
    assert json.loads(json.loads(reply)["text"])["verdicts"][0]["verdict"] == "yes"


def test_a_cache_that_is_no_database_is_one_clear_error(open_session, tmp_path):
    (tmp_path / "cache.db").write_text("not a database, " * 99)
    with pytest.raises(
        OutputError, match=r"cannot use the judge's cache .*cache\.db.*Move the file"
    ):
        open_session(cache="cache.db")


@pytest.mark.parametrize("reply", ['{"words": "yes"}', "[]", "{"])
def test_a_cache_with_replies_of_another_form_is_one_clear_error(open_session, tmp_path, reply):
    open_session(cache="cache.db").match(questions(1))
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute("UPDATE replies SET reply = ?", (reply,))
    database.close()
    again = open_session(transcript="2.jsonl", cache="cache.db")
    with pytest.raises(OutputError, match=r"cannot use the judge's cache .*Move the file"):
        again.match(questions(1))


def open_files(folder):
    """The files below a folder that this process has open."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.islink(link)]
    return [target for target in targets if target.startswith(str(folder))]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are read from /proc")
@pytest.mark.parametrize("broken", ["cache.db", "transcript.jsonl"])
def test_a_session_that_cannot_open_leaves_no_file_open(open_session, tmp_path, broken):
    (tmp_path / broken).mkdir()
    with pytest.raises(OutputError, match=broken):
        open_session(cache="cache.db")
    assert open_files(tmp_path) == []


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are read from /proc")
def test_a_transcript_that_cannot_be_put_on_disk_leaves_no_file_open(
    open_session, tmp_path, monkeypatch
):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    session = open_session(cache="cache.db")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="the disk is full"):
        session.close()
    assert open_files(tmp_path) == []


def test_half_a_surrogate_pair_survives_transcript_and_cache(open_session):
    text = "broken \ud83d text"
    first = open_session(transcript="1.jsonl", cache="cache.db")
    answers = first.match([Match("supported", (text,), sources=(Source("s", text),))])
    first.close()
    again = open_session(ScriptedJudge(), transcript="2.jsonl", cache="cache.db")
    assert again.match([Match("supported", (text,), sources=(Source("s", text),))]) == answers


def test_settings_and_prompt_versions_are_told(open_session):
    told = open_session(units_per_call=3, lang="zh").provenance()
    assert told["judge"]["type"] == "ScriptedJudge"
    assert (told["lang"], told["units_per_call"]) == ("zh", 3)
    assert len(set(told["prompt_versions"].values())) == 7


def test_the_transcript_is_with_the_system_after_every_reply(open_session, rows):
    seen = []

    class Watched(ScriptedJudge):
        def ask(self, calls):
            for item in super().ask(calls):
                yield item
                seen.append(len(rows()))

    open_session(Watched()).match(questions(4))
    assert seen == [1, 2, 3, 4]
