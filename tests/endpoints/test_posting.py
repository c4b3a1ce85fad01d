"""What becomes of a request when the other side is no proper server."""

import asyncio
import socket
import threading
from contextlib import contextmanager

import pytest

from opencompass_ext.endpoints.posting import Poster, PostFailure, PostOptions

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
CONTENT = b'{"choices": []}'


@contextmanager
def listening(answer):
    """A socket that sends ``answer`` to each request; None keeps the connection open and silent."""
    asked = []
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while not over.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(65536))
                    connection.sendall(answer or b"")
                    if answer is None:
                        over.wait(10)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1", asked
        over.set()
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def post(url, **options):
    options = {"key": None, "key_env": "KEY", "timeout": 5.0, "max_attempts": 1, **options}
    poster = Poster(PostOptions(url=url, **options))

    async def ask():
        async with poster.client(1) as client:
            return await poster.post(client, {"model": "m"})

    return asyncio.run(ask())


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_an_answer_is_decoded():
    with listening(OK % (len(CONTENT), CONTENT)) as (url, asked):
        posted = post(url, key="sk-0123456789")
    assert (posted.content, posted.attempts) == ({"choices": []}, 1)
    assert b"Bearer sk-0123456789" in asked[0]
    assert asked[0].endswith(b'{"model":"m"}')


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (b"", "unavailable", "ServerDisconnectedError: Server disconnected"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "unavailable", "Error: 400, message"),
        (OK % (99, CONTENT), "unavailable", "ClientPayloadError: "),
        (OK % (5, b'{"a":'), "unavailable", "the reply of 5 bytes is no valid JSON"),
        (None, "timeout", "no answer within 0.5 s"),
    ],
    ids=["closes", "is no HTTP server", "closes in its answer", "cut JSON", "silent"],
)
def test_a_connection_that_breaks_is_told_from_one_that_waits(answer, kind, told):
    with listening(answer) as (url, _), pytest.raises(PostFailure, match=told) as caught:
        post(url, timeout=0.5)
    assert (caught.value.kind, caught.value.attempts) == (kind, 1)


def test_a_page_in_place_of_json_is_shown():
    page = b"<html>Sign in</html>"
    told = r"it begins: <html>Sign in</html>"
    with listening(OK % (len(page), page)) as (url, _), pytest.raises(PostFailure, match=told):
        post(url)


def test_a_redirect_is_told_with_its_address():
    moved = b"HTTP/1.1 308 Moved\r\nLocation: https://host/v2\r\nContent-Length: 0\r\n\r\n"
    told = r"redirects to https://host/v2\. Put"
    with listening(moved) as (url, _), pytest.raises(PostFailure, match=told) as caught:
        post(url)
    assert (caught.value.kind, caught.value.status) == ("refused", 308)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "http://no-such-host.invalid/v1"])
def test_no_server_is_told_with_what_to_look_at(address):
    with pytest.raises(PostFailure, match=r"cannot connect: .*Is the server running\?") as caught:
        post(address)
    assert caught.value.kind == "cannot_connect"


def test_the_proxy_of_the_environment_is_used(monkeypatch):
    with listening(OK % (len(CONTENT), CONTENT)) as (url, asked):
        monkeypatch.setenv("HTTP_PROXY", url.removesuffix("/v1"))
        assert post("http://judge.invalid/v1").content == {"choices": []}
    assert asked[0].startswith(b"POST http://judge.invalid/v1 HTTP/1.1\r\n")


def test_a_proxy_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(PostFailure, match="cannot connect to the proxy of the environment"):
        post("http://judge.invalid/v1")


def test_a_request_that_is_given_up_costs_no_connection():
    with listening(None) as (url, _):
        poster = Poster(PostOptions(url, None, "KEY", timeout=9.0, max_attempts=1, deadline=0.2))

        async def ask():
            async with poster.client(1) as client:
                for _ in range(2):
                    with pytest.raises(PostFailure, match=r"no answer within 0\.2 s"):
                        await poster.post(client, {})
                poster.options = PostOptions(good, None, "KEY", timeout=2.0, max_attempts=1)
                return await poster.post(client, {})

        with listening(OK % (len(CONTENT), CONTENT)) as (good, _):
            assert asyncio.run(ask()).content == {"choices": []}


@pytest.mark.parametrize("answer", [OK % (len(CONTENT), CONTENT), None])
def test_waiting_for_a_turn_takes_nothing_from_the_deadline(answer):
    async def turn():
        await asyncio.sleep(0.4)

    with listening(answer) as (url, asked):
        poster = Poster(
            PostOptions(url, None, "KEY", timeout=9.0, max_attempts=1, deadline=0.3), turn
        )

        async def ask():
            async with poster.client(1) as client:
                return await poster.post(client, {})

        if answer is None:
            with pytest.raises(PostFailure, match=r"no answer within 0\.3 s") as caught:
                asyncio.run(ask())
            assert caught.value.attempts == 1
        else:
            assert asyncio.run(ask()).attempts == 1
    assert len(asked) == 1
