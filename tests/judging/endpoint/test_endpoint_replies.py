"""Replies of an endpoint that are empty, in parts, cut, or without a count of tokens."""

import json

import pytest
from chat_server import say, says, usual
from endpoint_questions import TRUE, reasons, row, states

from opencompass_ext.judging import Decompose


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"refusal": "I will not."}, "judge_error"),
        ({"refusal": "I will not \ud83d."}, "judge_error"),
    ],
)
def test_a_reply_without_text_is_null_with_a_reason(open_session, judge, server, message, reason):
    def act(handler, body):
        say(handler, body, None, **message)

    server.by_text = {"Query 1?": [act]}
    answers = open_session(judge()).match([row(i) for i in range(3)])
    assert states(answers[0]) == [True, False]
    assert set(reasons(answers[1:2])) == {reason}


@pytest.mark.parametrize("empty", [None, "", " \n", []], ids=["null", "text", "blank", "parts"])
def test_an_empty_reply_is_asked_for_once_more(open_session, judge, server, empty):
    def act(handler, body):
        say(handler, body, empty)

    server.by_text = {"Query 1?": [act], "Query 2?": [act, act]}
    answers = open_session(judge()).match([row(i) for i in range(3)])
    assert [states(verdicts) for verdicts in answers[:2]] == [[True, False]] * 2
    assert set(reasons(answers[2:])) == {"judge_error"}


def test_a_reply_in_parts_is_joined(open_session, judge, server):
    def act(handler, body):
        from chat_server import rule

        text = json.dumps(rule(body))
        say(handler, body, [{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}])

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


@pytest.mark.parametrize("word", ["length", "max_tokens", "MAX_TOKENS"])
def test_a_cut_is_known_by_any_of_its_names(open_session, judge, server, word):
    server.script = [says('{"verdicts": [', finish_reason=word), usual]
    (verdicts,) = open_session(judge(response_format="text")).match([row(0, claims=(TRUE,))])
    assert states(verdicts) == [True]
    assert [body["max_tokens"] for body in server.bodies] == [4096, 8192]
