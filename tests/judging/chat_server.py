"""A chat completions endpoint on the loopback interface that can be told to misbehave."""

import json
import re

from support.loopback import LoopbackServer, serving

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


class ChatServer(LoopbackServer):
    """Follows ``rule``, unless told otherwise.

    Attributes:
        by_text: Part of a prompt -> a script of its own for the requests that contain it.
    """

    endpoint = "/v1/chat/completions"

    def forget(self):
        super().forget()
        self.by_text = {}

    def next_act(self, body):
        prompt = body["messages"][0]["content"]
        for text, script in self.by_text.items():
            if text in prompt and script:
                return script.pop(0)
        return super().next_act(body)

    def respond(self, handler, body):
        say(handler, body, json.dumps(rule(body), ensure_ascii=False))


def serve():
    return serving(ChatServer())


def say(handler, body, text, finish_reason="stop", usage=True, **message):
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
    handler.answer(content)


def usual(handler, body):
    return True


def says(text, **options):
    """Answer with a text, or with what a function of the usual answer makes of it."""

    def act(handler, body):
        said = text(rule(body)) if callable(text) else text
        say(handler, body, said if isinstance(said, str) else json.dumps(said), **options)

    return act


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
        say(handler, body, "Let me think. I hope that helps!")
        return False

    return act


def wraps(before):
    """Put something before the usual answer, whatever form is asked for."""
    return says(lambda reply: before + json.dumps(reply))
