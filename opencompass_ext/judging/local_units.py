"""The lists of units a judge of this machine gives: kept from going on for ever, and never cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.judging.base import Call, Reply
from opencompass_ext.sentences import sentence_spans

# A small model may repeat itself for ever; what grows to this length is no unit.
MOST_UNIT_CHARS = 400


def is_at_bound(call: Call, text: str, most_units: int) -> bool:
    """Return whether the grammar of ``bounded``, and not the model, ended a list or a unit."""
    from opencompass_ext.judging.prompts.formats import UNIT_LISTS

    try:
        units = json.loads(text)[UNIT_LISTS[call.kind][1]]
    except ValueError:
        return False  # cut by max_tokens
    return len(units) >= most_units or any(len(unit) >= MOST_UNIT_CHARS for unit in units)


def sentences_as_units(calls: Sequence[tuple[int, Call]]) -> Iterator[tuple[int, Reply]]:
    """Yield the sentences of the text of each call as its units, with the number of the call."""
    from opencompass_ext.judging.prompts.formats import UNIT_LISTS

    for number, call in calls:
        text = (call.texts or {})["text"][0]
        units = [text[start:end] for start, end in sentence_spans(text)]
        content = json.dumps({UNIT_LISTS[call.kind][1]: units}, ensure_ascii=False)
        yield number, Reply(content, "stop", 0, 0, reply_format="sentences")


def bounded(schema: Mapping[str, Any], most_units: int) -> dict[str, Any]:
    """Return a schema of units in which no list and no unit goes on for ever, or is empty.

    Small models like to close a list at once. Only a refusal may have no units.

    Example:
        >>> facts = {"properties": {"facts": {"type": "array", "items": {"type": "string"}}}}
        >>> found = bounded(facts, 5)["properties"]["facts"]
        >>> found["minItems"], found["maxItems"]
        (1, 5)
    """
    kept = {
        name: _bounded_list(value, most_units) if value["type"] == "array" else value
        for name, value in schema["properties"].items()
    }
    if "refusal" not in kept:
        return {**schema, "properties": kept}
    may_be_empty = {
        name: {**value, "minItems": 0} if value["type"] == "array" else value
        for name, value in kept.items()
    }
    refuses = {**schema, "properties": {**may_be_empty, "refusal": {"const": True}}}
    answers = {**schema, "properties": {**kept, "refusal": {"const": False}}}
    return {"anyOf": [answers, refuses]}


def _bounded_list(value: Mapping[str, Any], most_units: int) -> dict[str, Any]:
    items = {**value["items"], "minLength": 1, "maxLength": MOST_UNIT_CHARS}
    return {**value, "items": items, "minItems": 1, "maxItems": most_units}
