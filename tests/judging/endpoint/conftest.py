"""A server for the endpoint to be, the same for all tests of a file."""

import pytest
from chat_server import serve
from endpoint_questions import KEY
from support.loopback import start_test

from opencompass_ext.judging import EndpointJudge


@pytest.fixture(scope="module")
def running():
    with serve() as server:
        yield server


@pytest.fixture
def server(running, monkeypatch):
    return start_test(running, monkeypatch, KEY)


@pytest.fixture
def judge(server):
    def build(**options):
        return EndpointJudge(**{"model": "m", "url": server.url, **options})

    return build
