"""Judged runs against real servers of a small real model, which is no good judge but a real one."""

import importlib.util
import logging

import pytest
from real_servers import llama_cpp, transformers_serve

from opencompass_ext.judging import EndpointJudge, Match, Source
from opencompass_ext.judging.base import Call
from opencompass_ext.judging.prompts.formats import decompose_schema

REASONS = {None, "judge_truncated", "judge_error", "incomplete_verdicts"}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def questions(count):
    source = Source("s", "Tea is hot.")
    return [
        Match("supported", (f"Tea number {i} is hot.",), sources=(source,)) for i in range(count)
    ]


needs_llama_cpp = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason="llama.cpp's server needs one more package: pip install xllamacpp",
)


@pytest.fixture(scope="module")
def llama_url(smollm2_path, tmp_path_factory):
    gguf = smollm2_path.parent / "source" / "model.gguf"
    with llama_cpp(gguf, tmp_path_factory.mktemp("llama") / "log") as url:
        yield url


@needs_llama_cpp
def test_a_server_that_enforces_schemas(llama_url, open_session, rows):
    # Bit-equal repeats need the prompt cache off.
    judge = EndpointJudge("smol", llama_url, max_tokens=8, extra_body={"cache_prompt": False})
    session = open_session(judge)
    verdicts = [v for (v,) in session.match(questions(2))]
    assert {v.reason for v in verdicts} <= REASONS
    assert all((v.is_yes is None) == (v.reason is not None) for v in verdicts)
    for row in rows():
        assert row["reply_format"] == "json_schema"
        assert row["reply"].startswith("{")
    usage = session.usage()["supported"]["judge"]
    assert usage["input_tokens"] > 100 * usage["calls"]


@needs_llama_cpp
def test_a_prompt_too_long_for_a_real_server_costs_one_row(llama_url, open_session):
    judge = EndpointJudge("smol", llama_url, max_tokens=8, response_format="json_schema")
    long = Match("supported", ("Tea is hot.",), sources=(Source("s", "tea " * 4000),))
    (verdict,) = open_session(judge).match([long])[0]
    assert (verdict.is_yes, verdict.reason) == (None, "too_long_for_judge")


@needs_llama_cpp
def test_scoring_again_needs_no_server(smollm2_path, tmp_path, open_session):
    gguf = smollm2_path.parent / "source" / "model.gguf"
    with llama_cpp(gguf, tmp_path / "log") as url:
        judge = EndpointJudge("smol", url, max_tokens=8)
        session = open_session(judge)
        answers = session.match(questions(1))
        session.close()
    assert open_session(judge).match(questions(1)) == answers


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("openai", "fastapi", "uvicorn")),
    reason="transformers serve needs more packages: pip install transformers[serving]",
)
def test_a_server_that_ignores_response_format(smollm2_path, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    # Answered in a word, so that the reply is whole and shows that no schema was kept to.
    message = {"role": "user", "content": "What is 1+1? Answer with the number only."}
    schema = decompose_schema("facts")
    call = Call("facts", (message,), schema, max_tokens=32, prompt_version="")
    with transformers_serve(smollm2_path, tmp_path / "log") as url:
        judge = EndpointJudge(str(smollm2_path), url)
        replies = [reply for _, reply in judge.ask([call, call])]
    assert [reply.reply_format for reply in replies] == ["text", "text"]
    assert all(reply.text and reply.output_tokens for reply in replies)
    assert [m for m in caplog.messages if "replies are asked for as text" in m]
