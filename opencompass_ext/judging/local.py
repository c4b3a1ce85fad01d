"""A judge that is a model of this machine: units by constrained generation, verdicts by likelihood.

A verdict compares the likelihood of the words for yes and no after the prompt. It cannot be
unreadable, needs no generation, is the same every time, and comes with a probability::

    P(yes) = p("Yes") + p("yes")  over  p("Yes") + p("yes") + p("No") + p("no")

Prompts over one source share their beginning, which the engine reads once.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from opencompass_ext.checks import check_least
from opencompass_ext.errors import ConfigError
from opencompass_ext.judging.base import BaseJudge, Call, Reply
from opencompass_ext.judging.local_units import (
    MOST_UNIT_CHARS,
    bounded,
    is_at_bound,
    sentences_as_units,
)
from opencompass_ext.records import GenerationRequest, LabelledText
from opencompass_ext.registry import JUDGES, MODELS

# Calls taken together: enough for full batches and shared beginnings, few enough to lose by a kill.
WINDOW = 64
UNITS = ("model", "sentences")
# Beyond this, numbers move with what was read in the same batch.
_PROBABILITY_DIGITS = 4


@JUDGES.register_module()
class LocalJudge(BaseJudge):
    """Asks a model of this harness that generates and scores.

    Needs the extra ``judge``. The prompts are wrapped in the model's chat template.

    Args:
        model: Config of the model, such as
            ``dict(type="HuggingFacewithChatTemplate", path="embedded:smollm2-135m-instruct")``.
        units: Who cuts texts into claims, facts and sub-questions: ``"model"``, or ``"sentences"``
            to take each sentence as one, for a model too small to write lists. Sentences stand as
            they are, pronouns and all, and no response is a refusal.
        max_tokens: Most tokens of a list of units.
        context_tokens: Tokens of prompt and reply together, as estimated from the length of the
            text; longer sources are read in parts.
        batch_size: Most prompts per batch; None leaves it to the model.
        most_units: Most units of one list. A text whose list grows to that, or has a unit of 400
            characters, is asked about by halves; a single sentence is then ``judge_truncated``.

    Raises:
        ConfigError: An option has a value it cannot have, or the model's config is wrong.
    """

    answers_by_likelihood: ClassVar[bool] = True

    def __init__(
        self,
        model: Mapping[str, Any],
        units: str = "model",
        max_tokens: int = 512,
        context_tokens: int = 2048,
        batch_size: int | None = None,
        most_units: int = 32,
    ) -> None:
        check_least(1, max_tokens=max_tokens, context_tokens=context_tokens, most_units=most_units)
        check_least(1, may_be_none=True, batch_size=batch_size)
        if units not in UNITS:
            raise ConfigError(f"units must be one of {', '.join(UNITS)}, got {units!r}")
        self.units = units
        self.max_tokens = max_tokens
        self.batch_size = batch_size
        self.most_units = most_units
        self._context_tokens = context_tokens
        self._model: Any = MODELS.build({k: v for k, v in model.items() if k != "abbr"})

    def identity(self) -> Mapping[str, Any]:
        """Return what the model says of itself, and the bound on what it may say."""
        return {
            "type": type(self).__name__,
            "model": dict(self._identity),
            "units": self.units,
            "most_units": self.most_units,
            "most_unit_chars": MOST_UNIT_CHARS,
        }

    @cached_property
    def _identity(self) -> Mapping[str, Any]:
        return {**self._model.identity(), **self._model.generation_settings()}

    @property
    def context_tokens(self) -> int | None:
        """Tokens of prompt and reply together."""
        return self._context_tokens

    def ask(self, calls: Iterable[Call]) -> Iterator[tuple[int, Reply]]:
        """Answer the calls, some at a time.

        Raises:
            ConfigError: The model has no chat template, or does not generate.
            MissingDependencyError: ``llguidance`` is missing and units are asked for.
            ModelError: The model cannot be loaded.
        """
        numbered = iter(enumerate(calls))
        while window := list(itertools.islice(numbered, WINDOW)):
            give_units = self._give_units if self.units == "model" else sentences_as_units
            yield from give_units([item for item in window if not item[1].units])
            yield from self._give_verdicts([item for item in window if item[1].units])

    def _give_units(self, calls: Sequence[tuple[int, Call]]) -> Iterator[tuple[int, Reply]]:
        # Calls of one form can be generated in one batch.
        def form(item: tuple[int, Call]) -> tuple[str, int]:
            return json.dumps(item[1].schema, sort_keys=True), item[1].max_tokens

        for (_, max_tokens), group in itertools.groupby(sorted(calls, key=form), key=form):
            yield from self._generate(list(group), max_tokens)

    def _generate(
        self, calls: Sequence[tuple[int, Call]], max_tokens: int
    ) -> Iterator[tuple[int, Reply]]:
        fitting, refused = self._sort_out(calls, max_tokens)
        yield from refused
        if not fitting:
            return
        started = time.monotonic()
        batches = self._model.generate_texts(
            [GenerationRequest(tuple(call.messages), {}) for _, call, _ in fitting],
            max_out_len=max_tokens,
            json_schema=bounded(fitting[0][1].schema, self.most_units),
            batch_rows=self.batch_size,
        )
        for batch in batches:
            seconds = (time.monotonic() - started) / max(1, len(batch))
            for index, answer in batch.items():
                number, call, _ = fitting[index]
                yield (
                    number,
                    Reply(
                        answer.text,
                        "bound"
                        if is_at_bound(call, answer.text, self.most_units)
                        else answer.finish_reason,
                        answer.input_tokens,
                        answer.output_tokens,
                        seconds,
                        reply_format="constrained",
                    ),
                )
            started = time.monotonic()

    def _give_verdicts(self, calls: Sequence[tuple[int, Call]]) -> Iterator[tuple[int, Reply]]:
        fitting, refused = self._sort_out(calls, 0)
        yield from refused
        if not fitting:
            return
        started = time.monotonic()
        texts: list[LabelledText] = []
        owners: list[tuple[int, str]] = []
        for index, (_, call, prompt) in enumerate(fitting):
            for state, spellings in (call.words or {}).items():
                for word in spellings:
                    end = len(prompt) + len(word)
                    spans = {"word": ((len(prompt), end),)}
                    texts.append(LabelledText(prompt + word, spans, cuts=(len(prompt),)))
                    owners.append((index, state))
        nlls: list[dict[str, list[float]]] = [{"yes": [], "no": []} for _ in fitting]
        tokens = [0] * len(fitting)
        for batch in self._model.score_spans(texts, batch_rows=self.batch_size, long_text="error"):
            for i, scored in batch.items():
                index, state = owners[i]
                nlls[index][state].append(scored.spans["word"].nll)
                tokens[index] = max(tokens[index], scored.text_tokens)
        seconds = (time.monotonic() - started) / len(fitting)
        for (number, call, _), by_state, count in zip(fitting, nlls, tokens, strict=True):
            yield number, _verdict(call, by_state, count, seconds)

    def _sort_out(
        self, calls: Sequence[tuple[int, Call]], reply_tokens: int
    ) -> tuple[list[tuple[int, Call, str]], list[tuple[int, Reply]]]:
        """Return the calls that fit the model, with their prompts, and a reply to the others."""
        limit = getattr(getattr(self._model, "text_side", None), "max_seq_len", None)
        fitting: list[tuple[int, Call, str]] = []
        refused: list[tuple[int, Reply]] = []
        for number, call in calls:
            prompt = self._model.chat_text(call.messages)
            # A word and a prefix token have to fit as well.
            needed = self._model.get_token_len(prompt) + reply_tokens + 8
            if limit is not None and needed > limit:
                message = f"{needed} tokens with the reply, and the model takes {limit}"
                refused.append((number, Reply(None, reason="too_long_for_judge", message=message)))
            else:
                fitting.append((number, call, prompt))
        return fitting, refused


def _verdict(call: Call, nlls: Mapping[str, Sequence[float]], tokens: int, seconds: float) -> Reply:
    yes, no = (_log_sum([-nll for nll in nlls[state]]) for state in ("yes", "no"))
    total = _log_sum([yes, no])
    if not math.isfinite(total):
        message = "the model gives the verdict words no finite likelihood"
        return Reply(None, reason="judge_error", message=message, seconds=seconds)
    probability = round(math.exp(yes - total), _PROBABILITY_DIGITS)
    words = call.words or {}
    verdict = {
        "id": call.units[0].id,
        "verdict": words["yes" if probability > 0.5 else "no"][0],
        "probability": probability,
    }
    # How much of all that could have followed these words are.
    mass = round(math.exp(total), _PROBABILITY_DIGITS)
    text = json.dumps({"verdicts": [verdict], "mass": mass}, ensure_ascii=False)
    return Reply(text, "stop", tokens, 0, seconds, reply_format="likelihood")


def _log_sum(logs: Sequence[float]) -> float:
    """Return log(sum(exp(logs))), minus infinity or NaN where that is what goes in."""
    largest = max(logs)
    if not math.isfinite(largest):
        return largest
    return largest + math.log(math.fsum(math.exp(x - largest) for x in logs))
