"""A server for the endpoint to be, the same for all tests of a file."""

import pytest
from chat_server import serve
from endpoint_questions import KEY

from opencompass_ext.endpoints import posting
from opencompass_ext.judging import EndpointJudge


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
