"""What an endpoint is asked, how many requests at once, and from where."""

import asyncio
import json
import logging
import math
import threading
from types import SimpleNamespace

import anyio
import pytest
from chat_server import says, usual
from endpoint_questions import (
    KEY,
    calls_of,
    open_questions,
    row,
    states,
)
from support.loopback import fails, hangs

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.judging import Match, Source, limits


def test_many_rows_are_judged_at_once_and_come_in_order(open_session, judge, server):
    late = threading.Event()

    def comes_last(handler, body):
        late.wait(30)
        return True

    server.by_text = {"Query 1?": [comes_last], "Query 5?": [lambda h, b: late.set() or True]}
    answers = open_session(judge(concurrency=4)).match([row(i) for i in range(6)])
    assert [states(verdicts) for verdicts in answers] == [[True, False]] * 6
    assert server.most_at_once <= 4


def test_the_request_has_what_the_config_says(open_session, judge, server, rows):
    session = open_session(
        judge(max_tokens=99, seed=7, extra_body={"cache_prompt": False}, temperature=None)
    )
    session.match([row(0)])
    (body,) = server.bodies
    assert (body["model"], body["seed"], body["max_tokens"]) == ("m", 7, 99)
    assert body["cache_prompt"] is False
    assert "temperature" not in body
    (entry,) = rows()
    assert entry["served_as"] == "m-v1"
    assert entry["usage"] == {"input_tokens": 11, "output_tokens": 7}


def test_half_a_surrogate_pair_is_sent_as_the_replacement_character(open_session, judge, server):
    question = Match("supported", ("half \ud83d pair",), sources=(Source("s", "all \udc00"),))
    (answer,) = open_session(judge()).match([question])
    assert [verdict.unit for verdict in answer] == ["half \ud83d pair"]
    (body,) = server.bodies
    assert "half \ufffd pair" in body["messages"][0]["content"]
    assert "all \ufffd" in body["messages"][0]["content"]


def test_the_key_is_sent_and_stands_in_no_file_and_no_log(
    open_session, judge, server, tmp_path, caplog
):
    caplog.set_level(logging.DEBUG)
    server.script = [usual, fails(500, f"bad key {KEY}"), fails(403, f"no such key: {KEY}")]
    session = open_session(judge(), cache="cache.db")
    session.match([row(0)])
    with pytest.raises(ModelError, match=r"HTTP 403: no such key: <key>") as caught:
        session.match([row(1)])
    assert set(server.authorizations) == {f"Bearer {KEY}"}
    session.close()
    written = [path.read_bytes() for path in tmp_path.iterdir()]
    texts = [str(caught.value), caplog.text, json.dumps(session.provenance())]
    assert not [text for text in texts if KEY in text]
    assert not [data for data in written if KEY.encode() in data]


def test_a_busy_server_is_asked_less_at_once(judge, server):
    busy = fails(429, "", [("Retry-After", "0.01")])
    one = judge(concurrency=8)
    server.by_text = {"Query 3?": [busy]}
    list(one.ask(calls_of(open_questions(1))))
    list(one.ask(calls_of(open_questions(8))))
    assert one._client._limit.now < 8


def test_requests_keep_below_the_rate_asked_for(monkeypatch):
    clock, slept = [100.0], []

    async def sleep(seconds):
        slept.append(seconds)

    fake = SimpleNamespace(current_time=lambda: clock[0], sleep=sleep)
    monkeypatch.setattr(limits, "anyio", fake)
    limit = limits.RateLimit(per_minute=60)

    async def three():
        for _ in range(3):
            await limit.wait()
        clock[0] += 10
        await limit.wait()

    anyio.run(three)
    assert slept == [0.0, 1.0, 2.0, 0.0]


def test_every_attempt_counts_for_the_rate(judge, server, monkeypatch):
    waits = []
    monkeypatch.setattr(limits.RateLimit, "wait", lambda self: waits.append(1) or anyio.sleep(0))
    server.script = [fails(500)] * 2
    list(judge(requests_per_minute=9).ask(calls_of(open_questions(3))))
    assert len(waits) == len(server.bodies) == 5


def test_a_missing_key_is_named(open_session, judge, server, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    server.script = [fails(401)]
    with pytest.raises(ModelError, match="No key was sent: the environment variable MY_KEY is not"):
        open_session(judge(key_env="MY_KEY")).match([row(0)])


def test_a_key_that_a_server_echoes_is_in_no_file(open_session, judge, server, tmp_path):
    def echoes(reply):
        reply["verdicts"][0]["why"] = f"you sent Bearer {KEY}"
        return reply

    server.script = [says(echoes, reasoning=KEY), says(f"Bearer {KEY}?"), usual]
    session = open_session(judge(), cache="cache.db")
    (first,) = session.match([row(0)])
    session.match([row(1)])
    session.close()
    assert first[0].why == "you sent Bearer <key>"
    assert not [path for path in tmp_path.iterdir() if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize("key", ["EMPTY", "verdicts", "1"])
def test_a_key_that_is_no_secret_changes_no_reply(open_session, judge, server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    (verdicts,) = open_session(judge()).match([row(0)])
    assert states(verdicts) == [True, False]


def test_replies_out_of_order_and_verdicts_out_of_order(open_session, judge, server):
    def reverses(reply):
        return {"verdicts": reply["verdicts"][::-1]}

    server.script = [says(reverses)] * 9
    answers = open_session(judge()).match([row(i) for i in range(9)])
    assert [states(verdicts) for verdicts in answers] == [[True, False]] * 9


def test_it_works_inside_a_running_loop_and_twice(open_session, judge):
    async def notebook():
        session = open_session(judge())
        return [session.match([row(i)]) for i in range(2)]

    assert [states(a[0]) for a in asyncio.run(notebook())] == [[True, False]] * 2


def test_it_works_from_threads(open_session, judge):
    one = judge()
    found = {}

    def ask(number):
        session = open_session(one, transcript=f"{number}.jsonl")
        found[number] = states(session.match([row(number)])[0])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [True, False] for i in range(4)}


def test_leaving_early_ends_the_requests_under_way(judge, server):
    server.script = [usual, hangs, hangs, hangs]
    replies = judge(concurrency=3).ask(calls_of(open_questions(9)))
    next(replies)
    replies.close()
    assert not [thread for thread in threading.enumerate() if "portal" in thread.name]


def test_calls_are_taken_only_when_there_is_room(judge, server):
    taken = []

    def stream():
        for number, call in enumerate(calls_of(open_questions(50))):
            taken.append(number)
            yield call

    replies = judge(concurrency=2).ask(stream())
    for done in range(1, 6):
        next(replies)
        # Two that run, and two that have been answered and not been handed out.
        assert len(taken) <= done + 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "localhost:8000"}, "url must begin with http"),
        ({"url": "http://h/v1/chat/completions"}, "url must end before '/chat/completions'"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, got 0"),
        ({"max_attempts": True}, "max_attempts must be a whole number of at least 1, got True"),
        ({"deadline": math.nan}, "deadline must be a number of seconds above 0"),
        ({"response_format": "xml"}, "response_format must be one of auto, json_schema"),
        ({"extra_body": {"top_p": math.inf}}, "extra_body must be what JSON can hold"),
        ({"key_env": KEY}, "key_env must be the name of an environment variable"),
    ],
)
def test_options_that_cannot_be(judge, options, message):
    with pytest.raises(ConfigError, match=message) as caught:
        judge(**options)
    assert KEY not in str(caught.value)


def test_what_decides_the_answers_is_in_the_identity_and_nothing_else(judge):
    base = judge().identity()
    assert judge(concurrency=1, timeout=9, max_attempts=1).identity() == base
    for change in ({"model": "n"}, {"seed": 1}, {"temperature": 1.0}, {"extra_body": {"top_k": 1}}):
        assert judge(**change).identity() != base
