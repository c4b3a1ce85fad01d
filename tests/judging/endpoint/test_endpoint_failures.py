"""An endpoint that is busy, fails, hangs or is of no use: what is tried again, and what ends."""

import time

import pytest
from chat_server import cuts_body, trickles, usual
from endpoint_questions import reasons, row, states
from support.loopback import fails, hangs

from opencompass_ext.errors import ModelError

ERROR = {"error": {"message": "model overloaded"}}


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
