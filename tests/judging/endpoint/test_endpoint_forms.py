"""The form in which an endpoint is asked for JSON: found once, and by what."""

import json
import logging

import pytest
from chat_server import enforces_only, refuses_formats, say, says, usual, wraps
from endpoint_questions import calls_of, open_questions, row, states
from support.loopback import fails, hangs


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


def test_a_server_whose_schema_mode_answers_nothing_is_asked_otherwise(open_session, judge, server):
    def act(handler, body):
        if body.get("response_format", {}).get("type") != "json_schema":
            return True
        say(handler, body, "")
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
