"""An endpoint that works, fails, hangs, refuses and rambles."""

import asyncio
import json
import logging
import math
import threading
import time
from types import SimpleNamespace

import anyio
import pytest
from chat_server import (
    cuts_body,
    enforces_only,
    fails,
    hangs,
    refuses_formats,
    says,
    serve,
    trickles,
    usual,
    wraps,
)

from opencompass_ext.endpoints import posting
from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.judging import Decompose, EndpointJudge, Match, Source, limits

KEY = "sk-Very-Secret-0123456789"
TRUE = "The tower stands in Paris."
FALSE = "The tower is made of cheese."
SOURCE = Source("s1", f"{TRUE} It opened in 1889.")


@pytest.fixture(scope="module")
def running():
    with serve() as server:
        yield server


@pytest.fixture
def server(running, monkeypatch):
    running.forget()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(posting, "FIRST_WAIT_SECONDS", 0.001)
    return running


@pytest.fixture
def judge(server):
    def build(**options):
        return EndpointJudge(**{"model": "m", "url": server.url, **options})

    return build


def row(number, *, claims=(TRUE, FALSE)):
    """A question of its own for each number."""
    return Match("supported", claims, query=f"Query {number}?", sources=(SOURCE,))


def states(verdicts):
    return [verdict.is_yes for verdict in verdicts]


def reasons(answers):
    return [verdict.reason for verdicts in answers for verdict in verdicts]


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


# Faults of the transport.


@pytest.mark.parametrize("failure", [fails(500, "oops"), fails(503), cuts_body, fails(200, "<ht")])
def test_a_passing_failure_costs_attempts_not_verdicts(open_session, judge, server, failure, rows):
    server.script = [failure, failure]
    (verdicts,) = open_session(judge()).match([row(0)])
    assert states(verdicts) == [True, False]
    assert [entry["attempts"] for entry in rows()] == [3]


def test_rate_limited_rows_are_judged_in_the_end(open_session, judge, server):
    busy = fails(429, {"error": {"message": "slow down"}}, [("Retry-After", "0.01")])
    server.by_text = {"Query 3?": [busy] * 3, "Query 7?": [busy] * 3}
    answers = open_session(judge()).match([row(i) for i in range(10)])
    assert [states(verdicts) for verdicts in answers] == [[True, False]] * 10


def test_rows_that_stay_rate_limited_are_null_with_that_reason(open_session, judge, server):
    server.by_text = {"Query 3?": [fails(429)] * 9, "Query 7?": [fails(429)] * 9}
    session = open_session(judge(max_attempts=2))
    answers = session.match([row(i) for i in range(10)])
    assert sum(states(verdicts) == [True, False] for verdicts in answers) == 8
    assert {verdict.reason for verdict in answers[3] + answers[7]} == {"judge_rate_limited"}
    assert session.usage()["supported"]["judge"]["calls_without_reply"] == 2


def test_retry_after_is_obeyed(open_session, judge, server):
    server.script = [fails(429, "", [("Retry-After", "0.3")])]
    open_session(judge()).match([row(0)])
    first, second = server.times
    assert second - first >= 0.3


def test_a_busy_server_is_asked_less_at_once(judge, server):
    busy = fails(429, "", [("Retry-After", "0.01")])
    one = judge(concurrency=8)
    server.by_text = {"Query 3?": [busy]}
    list(one.ask(calls_of(open_questions(1))))
    list(one.ask(calls_of(open_questions(8))))
    assert one._client._limit.now < 8


def open_questions(count):
    return [row(i) for i in range(count)]


def calls_of(questions):
    from opencompass_ext.judging.base import Unit
    from opencompass_ext.judging.prompts.render import match_call
    from opencompass_ext.judging.prompts.templates import load_templates

    for question in questions:
        units = [Unit(i, text) for i, text in enumerate(question.units, start=1)]
        yield match_call(
            load_templates("en"),
            question.kind,
            units,
            question.query,
            [source.text for source in question.sources],
            100,
            by_likelihood=False,
        )


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


@pytest.mark.parametrize("stuck", [hangs, trickles])
def test_a_server_that_never_answers_costs_one_row(open_session, judge, server, stuck):
    server.by_text = {"Query 1?": [stuck] * 9}
    one = judge(timeout=0.2, deadline=0.3, max_attempts=2)
    answers = open_session(one).match([row(i) for i in range(3)])
    assert states(answers[0]) == states(answers[2]) == [True, False]
    assert {verdict.reason for verdict in answers[1]} == {"judge_timeout"}
    assert states(answers[1]) == [None, None]


def test_a_wait_beyond_the_deadline_is_not_begun(open_session, judge, server):
    server.by_text = {"Query 1?": [fails(429, "quota", [("Retry-After", "3600")])]}
    answers = open_session(judge(deadline=5)).match([row(i) for i in range(2)])
    assert states(answers[0]) == [True, False]
    assert set(reasons(answers[1:])) == {"judge_rate_limited"}


# Faults that end the run.


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, r"HTTP 401: who are you.*The key sent is that of.*OPENAI_API_KEY"),
        (404, r"HTTP 404: who are you.*Check url.*and model"),
    ],
)
def test_a_wrong_key_or_address_stops_the_run_before_the_rest(
    open_session, judge, server, status, message
):
    server.script = [fails(status, {"error": "who are you?"})] * 99
    with pytest.raises(ModelError, match=f"^the judge at {server.url}/chat/completions: {message}"):
        open_session(judge()).match([row(i) for i in range(50)])
    assert len(server.bodies) == 1


def test_a_missing_key_is_named(open_session, judge, server, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    server.script = [fails(401)]
    with pytest.raises(ModelError, match="No key was sent: the environment variable MY_KEY is not"):
        open_session(judge(key_env="MY_KEY")).match([row(0)])


def test_no_server_stops_the_run_at_once(open_session, judge):
    started = time.monotonic()
    with pytest.raises(ModelError, match=r"http://127.0.0.1:9/v1.*cannot connect.*Is the server"):
        open_session(judge(url="http://127.0.0.1:9/v1")).match([row(i) for i in range(50)])
    assert time.monotonic() - started < 20


def test_what_was_said_before_a_wrong_key_is_kept(open_session, judge, server, rows):
    server.by_text = {"Query 3?": [fails(401)]}
    with pytest.raises(ModelError, match="HTTP 401"):
        open_session(judge(concurrency=1)).match([row(i) for i in range(9)])
    assert [entry["reply"] is not None for entry in rows()] == [True] * 3


def test_a_server_that_is_broken_for_good_ends_the_run(open_session, judge, server):
    server.script = [usual, *[fails(500)] * 999]
    with pytest.raises(ModelError, match=r"4 requests in a row got no answer.*HTTP 500"):
        open_session(judge(max_attempts=1, give_up_after=4, concurrency=1)).match(
            [row(i) for i in range(50)]
        )
    assert len(server.bodies) == 5


def test_a_server_that_refuses_every_request_ends_the_run(open_session, judge, server):
    server.script = [fails(400, "unknown model m")] * 999
    with pytest.raises(ModelError, match=r"3 requests in a row got no answer.*unknown model m"):
        open_session(judge()).match([row(i) for i in range(50)])
    assert len(server.bodies) == 9  # each of them in three forms


def test_one_request_that_is_too_long_costs_one_row(open_session, judge, server):
    too_long = fails(400, {"error": {"message": "maximum context length is 9 tokens"}})
    server.by_text = {"Query 0?": [too_long] * 9}
    answers = open_session(judge()).match([row(i) for i in range(3)])
    assert set(reasons(answers[:1])) == {"too_long_for_judge"}
    assert [states(verdicts) for verdicts in answers[1:]] == [[True, False]] * 2


# The form of replies.


@pytest.mark.parametrize(
    ("server_does", "settles_on", "bodies"),
    [
        (usual, "json_schema", 1),
        (refuses_formats("json_schema"), "json_object", 2),
        (refuses_formats("json_schema", "json_object"), "text", 3),
        (enforces_only("json_object"), "json_object", 2),
        (enforces_only("text"), "text", 3),
        (wraps("<think>Hm.</think> "), "json_schema", 1),
        (wraps("Sure! "), "json_schema", 1),
    ],
    ids=[
        *("schema", "refuses schema", "refuses both", "ignores schema", "ignores both"),
        *("thinks first", "chats first"),
    ],
)
def test_the_form_of_replies_is_found_once_for_an_endpoint(
    open_session, judge, server, caplog, rows, server_does, settles_on, bodies
):
    caplog.set_level(logging.INFO)
    server.script = [server_does] * 99
    session = open_session(judge())
    for first in (0, 10):
        answers = session.match([row(first + i) for i in range(5)])
        assert [states(verdicts) for verdicts in answers] == [[True, False]] * 5
    assert len(server.bodies) == bodies + 9
    useful = [entry for entry in rows() if entry["problem"] is None]
    assert {entry["reply_format"] for entry in useful} == {settles_on}
    assert sum(entry["attempts"] for entry in rows()) == len(server.bodies)
    settled = [m for m in caplog.messages if "replies are asked for as" in m]
    assert settled == [f"{server.url}/chat/completions: replies are asked for as {settles_on}"]
    prompts = [body["messages"][-1]["content"] for body in server.bodies[-9:]]
    assert all(("JSON schema:" in prompt) == (settles_on != "json_schema") for prompt in prompts)


def test_a_first_reply_that_contradicts_itself_says_nothing_against_the_form(
    open_session, judge, server, rows
):
    def twice(reply):
        text = json.dumps(reply)
        return f"{text} or {text.replace('yes', 'no')}"

    server.script = [says(twice)]
    open_session(judge()).match([row(0), row(1)])
    assert [entry["reply_format"] for entry in rows()] == ["json_schema"] * 3


def test_every_answer_of_the_first_tries_is_on_record_and_counted(
    open_session, judge, server, rows
):
    server.script = [enforces_only("text")] * 99
    session = open_session(judge())
    answers = session.match([row(0), row(1)])
    session.close()
    assert [entry["reply_format"] for entry in rows()] == [
        "json_schema",
        "json_object",
        *["text"] * 2,
    ]
    usage = session.usage()["supported"]["judge"]
    assert (usage["calls"], usage["attempts"], usage["output_tokens"]) == (4, 4, 28)
    assert open_session(judge()).match([row(0), row(1)]) == answers
    assert len(server.bodies) == 4


@pytest.mark.parametrize("failure", [fails(429), fails(500), hangs])
def test_a_busy_or_broken_server_says_nothing_about_the_form(
    open_session, judge, server, rows, failure
):
    server.script = [failure, failure]
    open_session(judge(timeout=0.2)).match([row(0)])
    assert {entry["reply_format"] for entry in rows()} == {"json_schema"}
    assert {body["response_format"]["type"] for body in server.bodies} == {"json_schema"}


def test_a_form_that_is_asked_for_is_kept_to(open_session, judge, server, rows):
    server.script = [wraps("Sure! ")] * 9
    session = open_session(judge(response_format="json_object"))
    assert states(session.match([row(0)])[0]) == [True, False]
    assert len(server.bodies) == 1


# What replies may look like.


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"refusal": "I will not."}, "judge_error"),
        ({"refusal": "I will not \ud83d."}, "judge_error"),
    ],
)
def test_a_reply_without_text_is_null_with_a_reason(open_session, judge, server, message, reason):
    def act(handler, body):
        handler.say(body, None, **message)

    server.by_text = {"Query 1?": [act]}
    answers = open_session(judge()).match([row(i) for i in range(3)])
    assert states(answers[0]) == [True, False]
    assert set(reasons(answers[1:2])) == {reason}


@pytest.mark.parametrize("empty", [None, "", " \n", []], ids=["null", "text", "blank", "parts"])
def test_an_empty_reply_is_asked_for_once_more(open_session, judge, server, empty):
    def act(handler, body):
        handler.say(body, empty)

    server.by_text = {"Query 1?": [act], "Query 2?": [act, act]}
    answers = open_session(judge()).match([row(i) for i in range(3)])
    assert [states(verdicts) for verdicts in answers[:2]] == [[True, False]] * 2
    assert set(reasons(answers[2:])) == {"judge_error"}


def test_a_server_whose_schema_mode_answers_nothing_is_asked_otherwise(open_session, judge, server):
    def act(handler, body):
        if body.get("response_format", {}).get("type") != "json_schema":
            return True
        handler.say(body, "")
        return False

    server.script = [act] * 99
    one = judge()
    answers = open_session(one).match([row(i) for i in range(9)])
    assert [states(verdicts) for verdicts in answers] == [[True, False]] * 9
    assert len(server.bodies) == 10
    assert one._client._format.is_settled


def test_answers_that_say_nothing_of_the_form_do_not_keep_calls_one_by_one(
    open_session, judge, server
):
    one = judge(max_tokens=9)
    server.script = [says("{", finish_reason="length")] * 3
    list(one.ask(calls_of(open_questions(3))))
    assert one._client._format.is_settled


ERROR = {"error": {"message": "model overloaded"}}


def test_an_error_under_status_200_is_tried_again(open_session, judge, server, rows):
    wrapped = {"choices": [{"finish_reason": "error", "error": {"message": "oh"}, "message": {}}]}
    server.script = [fails(200, ERROR), fails(200, wrapped)]
    (verdicts,) = open_session(judge()).match([row(0)])
    assert states(verdicts) == [True, False]
    assert [entry["attempts"] for entry in rows()] == [3]


@pytest.mark.parametrize(
    ("content", "words"),
    [(ERROR, "HTTP 200: model overloaded"), ({"id": 1}, "expected 'choices' with a 'message'")],
    ids=["error", "no completion"],
)
def test_a_server_that_gives_no_answers_under_status_200_ends_the_run(
    open_session, judge, server, content, words
):
    server.script = [fails(200, content)] * 999
    with pytest.raises(ModelError, match=f"3 requests in a row got no answer.*{words}"):
        open_session(judge(max_attempts=2)).match([row(i) for i in range(60)])
    assert len(server.bodies) <= 6


@pytest.mark.parametrize(
    ("code", "reason"), [(429, "judge_rate_limited"), ("503", "judge_unavailable")]
)
def test_the_status_that_an_error_names_counts(open_session, judge, server, code, reason):
    error = {"error": {"message": "no", "code": code}}
    server.by_text = {"Query 1?": [fails(200, error)] * 9}
    answers = open_session(judge(max_attempts=2)).match([row(i) for i in range(3)])
    assert set(reasons(answers[1:2])) == {reason}
    server.script = [fails(200, {"error": {"message": "no", "code": 401}})]
    with pytest.raises(ModelError, match="HTTP 401: no"):
        open_session(judge(), transcript="2.jsonl").match([row(0)])


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


def test_a_reply_in_parts_is_joined(open_session, judge, server):
    def act(handler, body):
        from chat_server import rule

        text = json.dumps(rule(body))
        handler.say(body, [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}])

    server.script = [act]
    assert states(open_session(judge()).match([row(0)])[0]) == [True, False]


def test_thinking_that_is_cut_is_asked_again_with_a_larger_limit(open_session, judge, server):
    server.script = [says(None, finish_reason="length"), usual]
    claims = open_session(judge(max_tokens=64)).decompose([Decompose("claims", "One thing.")])
    assert claims[0].units == ("One thing.",)
    assert [body["max_tokens"] for body in server.bodies] == [64, 128]


def test_tokens_are_unknown_where_the_server_does_not_tell(open_session, judge, server):
    server.script = [says(lambda reply: reply, usage=False)]
    session = open_session(judge())
    session.match([row(0)])
    told = session.usage()["supported"]["judge"]
    assert (told["calls"], told["input_tokens"], told["output_tokens"]) == (1, "unknown", "unknown")


def test_replies_out_of_order_and_verdicts_out_of_order(open_session, judge, server):
    def reverses(reply):
        return {"verdicts": reply["verdicts"][::-1]}

    server.script = [says(reverses)] * 9
    answers = open_session(judge()).match([row(i) for i in range(9)])
    assert [states(verdicts) for verdicts in answers] == [[True, False]] * 9


# Where it is called from.


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


# Configs.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "localhost:8000"}, "url must begin with http"),
        ({"url": "http://h/v1/chat/completions"}, "url must end before '/chat/completions'"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, got 0"),
        ({"max_attempts": True}, "max_attempts must be a whole number of at least 1, got True"),
        ({"deadline": math.nan}, "deadline must be a number of seconds above 0"),
        ({"response_format": "xml"}, "response_format must be one of auto, json_schema"),
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
