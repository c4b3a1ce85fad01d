"""An HTTP server on the loopback interface that answers JSON and can be told to misbehave."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LoopbackServer(ThreadingHTTPServer):
    """Answers by its method ``respond``, unless told otherwise.

    Attributes:
        endpoint: End of the path that requests have to go to.
        bodies: The bodies of all requests, in the order they came.
        times: When they came.
        authorizations: What stood in their Authorization header.
        script: What to do with the next requests: functions of the handler and the body, which
            answer, or change nothing and return True to have it answered as usual.
        most_at_once: Most requests that were open at a time.
        released: Set when the server closes: what hangs waits for it.
    """

    endpoint = "/v1"
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.generation = 0
        self.forget()

    def forget(self):
        """Begin anew, under another address: a late request of an earlier test is not of this."""
        self.generation += 1
        self.bodies, self.times, self.authorizations, self.script = [], [], [], []
        self.open = self.most_at_once = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/{self.generation}/v1"

    def next_act(self, body):
        """What to do with a request, if not the usual."""
        return self.script.pop(0) if self.script else None

    def respond(self, handler, body):
        """Answer as usual."""
        raise NotImplementedError

    def handle_error(self, request, client_address):
        """Say nothing of clients that went away."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.split("/")[1] != str(server.generation):
            return self.answer("", 410)
        with server.lock:
            server.bodies.append(body)
            server.times.append(time.monotonic())
            server.authorizations.append(self.headers["Authorization"])
            server.open += 1
            server.most_at_once = max(server.most_at_once, server.open)
            act = server.next_act(body)
        try:
            if act is None or act(self, body):
                assert self.path.endswith(server.endpoint)
                server.respond(self, body)
        finally:
            with server.lock:
                server.open -= 1

    def answer(self, content, status=200, *, headers=(), keep=None):
        """Send JSON, or text as it is; all of it is promised, and the first ``keep`` bytes sent."""
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:keep])
        if keep is not None:
            self.close_connection = True

    def log_message(self, *args):
        pass


@contextmanager
def serving(server):
    """Let a server answer while the block lasts."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def start_test(server, monkeypatch, key):
    """Make a running server ready for one test, and the client quick to try again."""
    from opencompass_ext.endpoints import posting

    server.forget()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setattr(posting, "FIRST_WAIT_SECONDS", 0.001)
    return server


def fails(status, content="", headers=()):
    return lambda handler, body: handler.answer(content, status, headers=headers)


def hangs(handler, body):
    handler.server.released.wait(60)
