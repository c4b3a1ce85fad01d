"""A completions endpoint on the loopback interface that can be told to misbehave."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.reference import token_nlls
from transformers import AutoModelForCausalLM, AutoTokenizer


class CompletionsServer(ThreadingHTTPServer):
    """Echoes prompts with log-probabilities from one row alone, full logits, float64.

    Attributes:
        bodies: The bodies of all requests, in the order they came.
        authorizations: What stood in their Authorization header.
        script: What to do with the next requests: functions of the handler and the body, which
            answer, or change nothing and return True to have it answered as usual.
        most_at_once: Most requests that were open at a time.
        released: Set when the server closes: what hangs waits for it.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.released = threading.Event()
        self.lock = threading.Lock()
        self.generation = 0
        self.forget()

    def forget(self):
        """Begin anew, under another address: a late request of an earlier test is not of this."""
        self.generation += 1
        self.bodies, self.authorizations, self.script = [], [], []
        self.open = self.most_at_once = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/{self.generation}/v1"

    @property
    def prompts(self):
        return [prompt for body in self.bodies for prompt in body["prompt"]]

    def reply(self, body):
        assert body["echo"] is True
        assert body["logprobs"] >= 1
        choices = [
            {"index": i, "text": "", "logprobs": self.logprobs(ids, body["max_tokens"])}
            for i, ids in enumerate(body["prompt"])
        ]
        # Nothing says that choices come in the order of the prompts.
        return {"model": f"{body['model']}-v1", "choices": choices[::-1]}

    def logprobs(self, ids, generated):
        everything = ids + [7] * generated
        return {
            "tokens": [self.tokenizer.decode([i]) for i in everything],
            "token_logprobs": [None] + [-nll for nll in token_nlls(self.model, everything)],
        }

    def handle_error(self, request, client_address):
        """Say nothing of clients that went away."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.split("/")[1] != str(self.server.generation):
            return self.answer("", 410)
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.authorizations.append(self.headers["Authorization"])
            self.server.open += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.open)
            act = self.server.script.pop(0) if self.server.script else None
        try:
            if act is None or act(self, body):
                assert self.path.endswith("/v1/completions")
                self.answer(self.server.reply(body))
        finally:
            with self.server.lock:
                self.server.open -= 1

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
def serve(folder):
    server = CompletionsServer(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def fails(status, content="", headers=()):
    return lambda handler, body: handler.answer(content, status, headers=headers)


def hangs(handler, body):
    handler.server.released.wait(60)


def cuts_body(handler, body):
    handler.answer(handler.server.reply(body), keep=40)


def cuts_json(handler, body):
    handler.answer(json.dumps(handler.server.reply(body))[:-9])
