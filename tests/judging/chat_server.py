"""A chat completions endpoint on the loopback interface that can be told to misbehave."""

import json
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

UNIT = re.compile(r'<unit-([0-9a-f]{8}) id="(\d+)">\n(.*?)\n</unit-\1>', re.DOTALL)
SOURCE = re.compile(r"<source-([0-9a-f]{8})[^>]*>\n(.*?)\n</source-\1>", re.DOTALL)
TEXT = re.compile(r"<text-([0-9a-f]{8})>\n(.*?)\n</text-\1>", re.DOTALL)


def rule(body):
    """Say yes to the units that stand in a source word for word; a text is one claim."""
    prompt = body["messages"][0]["content"]
    units = UNIT.findall(prompt)
    if not units:
        text = TEXT.search(prompt)[2]
        key = re.findall(r'"(claims|facts|questions)"', prompt)[-1]
        return {"refusal": False, key: [text]} if key == "claims" else {key: [text]}
    wanted = {int(i) for _, i, _ in units}
    if len(body["messages"]) > 1:
        wanted = {
            int(i) for i in re.findall(r"\d+", body["messages"][-1]["content"].split("\n")[1])
        }
    sources = " ".join(text for _, text in SOURCE.findall(prompt))
    return {
        "verdicts": [
            {"id": int(i), "why": "by rule", "verdict": "yes" if text in sources else "no"}
            for _, i, text in units
            if int(i) in wanted
        ]
    }


class ChatServer(ThreadingHTTPServer):
    """Follows ``rule``, unless told otherwise.

    Attributes:
        bodies: The bodies of all requests, in the order they came.
        authorizations: What stood in their Authorization header.
        script: What to do with the next requests: functions of the handler and the body, which
            answer, or change nothing and return True to have it answered as usual.
        by_text: Part of a prompt -> such a list, for the requests that contain it.
        most_at_once: Most requests that were open at a time.
        released: Set when the server closes: what hangs waits for it.
    """

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
        self.bodies, self.authorizations, self.script, self.by_text = [], [], [], {}
        self.times = []
        self.open = self.most_at_once = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/{self.generation}/v1"

    def next_act(self, body):
        prompt = body["messages"][0]["content"]
        for text, script in self.by_text.items():
            if text in prompt and script:
                return script.pop(0)
        return self.script.pop(0) if self.script else None

    def handle_error(self, request, client_address):
        """Say nothing of clients that went away."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.split("/")[1] != str(self.server.generation):
            return self.answer("", 410)
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.times.append(time.monotonic())
            self.server.authorizations.append(self.headers["Authorization"])
            self.server.open += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.open)
            act = self.server.next_act(body)
        try:
            if act is None or act(self, body):
                assert self.path.endswith("/v1/chat/completions")
                self.say(body, json.dumps(rule(body), ensure_ascii=False))
        finally:
            with self.server.lock:
                self.server.open -= 1

    def say(self, body, text, finish_reason="stop", usage=True, **message):
        content = {
            "model": f"{body['model']}-v1",
            "choices": [
                {
                    "index": 0,
                    "message": {"content": text, **message},
                    "finish_reason": finish_reason,
                }
            ],
        }
        if usage:
            content["usage"] = {"prompt_tokens": 11, "completion_tokens": 7}
        self.answer(content)

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
def serve():
    server = ChatServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def usual(handler, body):
    return True


def fails(status, content="", headers=()):
    return lambda handler, body: handler.answer(content, status, headers=headers)


def says(text, **options):
    """Answer with a text, or with what a function of the usual answer makes of it."""

    def act(handler, body):
        said = text(rule(body)) if callable(text) else text
        handler.say(body, said if isinstance(said, str) else json.dumps(said), **options)

    return act


def hangs(handler, body):
    handler.server.released.wait(60)


def trickles(handler, body):
    """Send a byte now and then, so that no read ever takes long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not handler.server.released.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def cuts_body(handler, body):
    handler.answer({"choices": [{"message": {"content": "x" * 99}}]}, keep=40)


def refuses_formats(*refused):
    """Refuse requests whose response_format has one of these types."""

    def act(handler, body):
        wanted = body.get("response_format", {}).get("type")
        if wanted not in refused:
            return True
        handler.answer({"error": {"message": f"response_format {wanted} is not supported"}}, 400)
        return False

    return act


def enforces_only(*enforced):
    """Take any response_format; answer in words unless it is one of these types."""

    def act(handler, body):
        if body.get("response_format", {}).get("type", "text") in enforced:
            return True
        handler.say(body, "Let me think. I hope that helps!")
        return False

    return act


def wraps(before):
    """Put something before the usual answer, whatever form is asked for."""
    return says(lambda reply: before + json.dumps(reply))
