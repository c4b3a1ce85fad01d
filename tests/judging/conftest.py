"""Sessions with a judge that follows rules, in a folder of their own."""

import json

import pytest

from opencompass_ext.judging import ScriptedJudge
from opencompass_ext.judging.session import JudgeSession


@pytest.fixture
def open_session(tmp_path):
    """Open a session; the transcript is the same file each time, unless another is named.

    The session that had the file before is closed.
    """
    opened = {}

    def open_one(judge=None, transcript="transcript.jsonl", cache=None, **options):
        if transcript in opened:
            opened.pop(transcript).close()
        session = JudgeSession(
            ScriptedJudge() if judge is None else judge,
            tmp_path / transcript,
            None if cache is None else tmp_path / cache,
            **options,
        )
        opened[transcript] = session
        return session

    yield open_one
    for session in opened.values():
        session.close()


@pytest.fixture
def rows(tmp_path):
    """Read the rows of a transcript."""

    def read(name="transcript.jsonl"):
        with open(tmp_path / name, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    return read
