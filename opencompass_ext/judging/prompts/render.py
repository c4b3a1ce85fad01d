"""From a question to the messages a judge reads.

The long, shared material stands first and the units last, so that prompts over one source share
their beginning: servers and our own engine then read it once.
"""

from __future__ import annotations

from collections.abc import Sequence

from opencompass_ext.judging.base import Call, Message, Unit
from opencompass_ext.judging.prompts.fence import choose_code, fence, sendable
from opencompass_ext.judging.prompts.formats import (
    decompose_form,
    decompose_schema,
    verdict_form,
    verdict_schema,
)
from opencompass_ext.judging.prompts.templates import Templates

# Of a reply that cannot be used, as much is shown to the judge again.
MOST_REPLY_CHARS = 1200


def decompose_call(
    templates: Templates,
    kind: str,
    text: str,
    query: str | None,
    max_tokens: int,
    part: tuple[int, int] = (1, 1),
) -> Call:
    """Return the call that asks for the units of ``text``."""
    texts = [text] if query is None else [text, query]
    code = choose_code(texts, texts)
    prompt = templates.fill(
        kind,
        {
            "material": templates.fill("material", {"code": code}),
            "query": "" if query is None else fence("query", code, query),
            "text": fence("text", code, text),
            "form": decompose_form(kind),
        },
    )
    return Call(
        kind=kind,
        messages=({"role": "user", "content": prompt},),
        schema=decompose_schema(kind),
        max_tokens=max_tokens,
        prompt_version=templates.version(kind),
        texts={"text": (text,), "query": () if query is None else (query,)},
        part=part,
    )


def match_call(
    templates: Templates,
    kind: str,
    units: Sequence[Unit],
    query: str | None,
    sources: Sequence[str],
    max_tokens: int,
    *,
    by_likelihood: bool,
    part: tuple[int, int] = (1, 1),
) -> Call:
    """Return the call that asks for the verdicts of ``units``; ``sources`` are numbered from 1."""
    words = templates.words
    shared = [*sources] if query is None else [*sources, query]
    code = choose_code(shared, [*shared, *(unit.text for unit in units)])
    yes, no, unsure = words.asked
    form = verdict_form(words.asked, has_sources=len(sources) > 1)
    if by_likelihood:
        spelt = {state: spellings[0] for state, spellings in words.likelihood.items()}
        answer = templates.fill("answer_word", spelt)
    else:
        answer = templates.fill(
            "answer_verdicts", {"yes": yes, "no": no, "unsure": unsure, "form": form}
        )
    prompt = templates.fill(
        kind,
        {
            "material": templates.fill("material", {"code": code}),
            "query": "" if query is None else fence("query", code, query),
            "sources": "\n".join(
                fence("source", code, text, number) for number, text in enumerate(sources, start=1)
            ),
            "units": "\n".join(fence("unit", code, unit.text, unit.id) for unit in units),
            "answer": answer,
        },
    )
    return Call(
        kind=kind,
        messages=({"role": "user", "content": prompt},),
        schema=verdict_schema(words.asked, has_sources=len(sources) > 1),
        max_tokens=max_tokens,
        prompt_version=templates.version(kind),
        units=tuple(units),
        texts={"sources": tuple(sources), "query": () if query is None else (query,)},
        words=words.likelihood if by_likelihood else None,
        part=part,
    )


def repair_messages(
    templates: Templates, call: Call, reply: str, error: str, ids: Sequence[int] = ()
) -> tuple[Message, ...]:
    """Return the conversation that tells the judge what was wrong with its reply."""
    if call.units:
        has_sources = "source" in call.schema["properties"]["verdicts"]["items"]["properties"]
        form = verdict_form(templates.words.asked, has_sources=has_sources)
        listed = ", ".join(map(str, ids))
        said = templates.fill("repair_verdicts", {"error": error, "ids": listed, "form": form})
    else:
        said = templates.fill("repair", {"error": error, "form": decompose_form(call.kind)})
    return (
        *call.messages,
        {"role": "assistant", "content": sendable(reply[:MOST_REPLY_CHARS]) or "-"},
        {"role": "user", "content": said},
    )
