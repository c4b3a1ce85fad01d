"""What a reader needs to check a row's scores: every unit with every verdict on it, as JSON.

::

    {"text_for_the_judge": {"response" | "source <id>": [what it looks like, ...]},
     "sources":      [{"id", "essential": V}],
     "facts":        [{"source", "text", "essential": V}],
     "claims":       [{"text", "essential": V, "supported": V}],
     "subquestions": [{"text", "covered_by": {source id: V}, "answered": V}],
     "sentences":    [text, ...],  "pairs": [{"sentences": [i, j], "same": V | "cosine": number}]}

where V is ``{"verdict": "yes" | "no" | "unsure" | null, "why", "source", "calls"...}``; ``calls``
are hashes of requests in the transcript. What no metric asked for is not there. A claim of a row
without sources is unsupported without a call: ``{"verdict": "no", "reason": "no_sources"}``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opencompass_ext.evaluators.thelma.judged import JudgedRow, same_key, sentence_pairs
from opencompass_ext.evaluators.thelma.questions import (
    ALL_SOURCES,
    CHUNKS,
    CLAIMS,
    FACTS,
    RESPONSE,
    SUBQUESTIONS,
    VerdictKey,
    facts_of,
    one_source,
)
from opencompass_ext.judging import Verdict


def evidence(judged: JudgedRow, metrics: Collection[str]) -> dict[str, Any]:
    """Return the evidence of a row for the metrics that are wanted; see the module."""
    found = {
        "sources": [
            {"id": source.id, **_named("essential", judged, "essential", CHUNKS, source.text)}
            for source in judged.row.sources
        ],
        "facts": [
            {
                "source": source,
                "text": fact,
                **_named("essential", judged, "essential", FACTS, fact),
            }
            for source, fact in facts_of(judged.row, judged.units) or ()
        ],
        "claims": [
            {
                "text": claim,
                **_named("essential", judged, "essential", CLAIMS, claim),
                **(_supported(judged, claim) if "groundedness" in metrics else {}),
            }
            for claim in judged.units.get((CLAIMS, ""), ())
        ],
        "subquestions": [
            {
                "text": unit,
                **_covered_by(judged, unit),
                **_named("answered", judged, "covers", RESPONSE, unit),
            }
            for unit in judged.units.get((SUBQUESTIONS, ""), ())
        ],
        **_pairs(judged),
    }
    return {name: entries for name, entries in found.items() if entries}


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict with what it rests on; what is not known is left out.

    Example:
        >>> verdict_to_json(Verdict("Tea is hot.", True, why="says so", source_id="2"))
        {'verdict': 'yes', 'why': 'says so', 'source': '2'}
        >>> verdict_to_json(Verdict("Tea is hot.", None, reason="judge_timeout"))
        {'verdict': None, 'reason': 'judge_timeout'}
    """
    word = None if verdict.is_yes is None else ("yes" if verdict.is_yes else "no")
    details = {
        "why": verdict.why,
        "source": verdict.source_id,
        "probability": verdict.probability,
        "reason": verdict.reason,
        "calls": list(verdict.calls) or None,
    }
    shown = {"verdict": "unsure" if verdict.is_unsure and word == "no" else word}
    return {**shown, **{name: value for name, value in details.items() if value is not None}}


def _named(name: str, judged: JudgedRow, kind: str, context: str, unit: str) -> dict[str, Any]:
    verdict = judged.verdicts.get(VerdictKey(kind, context, unit))
    return {} if verdict is None else {name: verdict_to_json(verdict)}


def _supported(judged: JudgedRow, claim: str) -> dict[str, Any]:
    if not judged.row.sources:
        return {"supported": {"verdict": "no", "reason": "no_sources"}}
    return _named("supported", judged, "supported", ALL_SOURCES, claim)


def _covered_by(judged: JudgedRow, unit: str) -> dict[str, Any]:
    verdicts: dict[str, Any] = {}
    for source in judged.row.sources:
        verdicts.update(_named(source.id, judged, "covers", one_source(source.id), unit))
    together = _named("covered_by", judged, "covers", ALL_SOURCES, unit)
    return {"covered_by": verdicts} if verdicts else together


def _pairs(judged: JudgedRow) -> dict[str, Any]:
    pairs: list[dict[str, Any]] = []
    for number, (first, second) in enumerate(sentence_pairs(judged.row)):
        if judged.similarities is not None:
            what: dict[str, Any] = {"cosine": judged.similarities[number]}
        else:
            key = same_key(judged, first, second)
            what = _named("same", judged, *key)
        if what:
            pairs.append({"sentences": [first, second], **what})
    return {"sentences": list(judged.row.sentences), "pairs": pairs} if pairs else {}
