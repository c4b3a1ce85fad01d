"""A completions endpoint on the loopback interface that can be told to misbehave."""

import json

from support.loopback import LoopbackServer, serving
from support.reference import token_nlls
from transformers import AutoModelForCausalLM, AutoTokenizer


class CompletionsServer(LoopbackServer):
    """Echoes prompts with log-probabilities from one row alone, full logits, float64."""

    endpoint = "/v1/completions"

    def __init__(self, folder):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

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

    def respond(self, handler, body):
        handler.answer(self.reply(body))


def serve(folder):
    return serving(CompletionsServer(folder))


def cuts_body(handler, body):
    handler.answer(handler.server.reply(body), keep=40)


def cuts_json(handler, body):
    handler.answer(json.dumps(handler.server.reply(body))[:-9])
