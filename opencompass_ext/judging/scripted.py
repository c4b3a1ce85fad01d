"""A judge without a model, whose every answer can be worked out by hand, for tests and tries."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.judging.base import BaseJudge, Call, Reply, Unit
from opencompass_ext.registry import JUDGES

FAULTS = (
    *("prose", "cut", "missing", "extra", "contradictory", "unreadable", "wrong_key", "empty"),
    *("timeout", "rate_limited", "unavailable", "unusable"),
)
_REFUSAL = re.compile(
    r"could not find|cannot answer|can't answer|don't know|do not know|无法回答|不知道|没有找到",
    re.I,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


@JUDGES.register_module()
class ScriptedJudge(BaseJudge):
    """Follows rules instead of reading, answers from a list where it has one, and can misbehave.

    Without an answer in the lists: units are the sentences of a text, sub-questions those of a
    query; a text that says it does not know is a refusal; ``essential`` holds when a unit shares a
    word of at least four letters with the query, ``covers`` and ``supported`` when all such words
    of the unit stand in one source, ``same`` when both sentences have the same such words. A word
    in a script without blanks is a single character.

    Args:
        units: Text -> its units.
        verdicts: Unit, or ``"kind|unit"`` -> what the judge says of it: ``"yes"``, ``"no"``,
            ``"unsure"`` or anything else.
        faults: Part of a prompt -> what happens to the calls that contain it, one of ``FAULTS``, or
            a list: the first such call gets the first, and so on; after the last all is well.
        lang: ``"zh"`` for Chinese verdict words.
        seconds_per_call: Time each call takes.
        die_after: Kill the process as SIGKILL does, once so many replies have been given.
        max_tokens: Most tokens of a reply.
        context_tokens: Tokens the judge takes at once.
        path: Free text; part of the identity.

    Attributes:
        calls: All calls so far, for tests.
    """

    def __init__(
        self,
        units: Mapping[str, Sequence[str]] | None = None,
        verdicts: Mapping[str, str] | None = None,
        faults: Mapping[str, str | Sequence[str]] | None = None,
        lang: str = "en",
        seconds_per_call: float = 0.0,
        die_after: int | None = None,
        max_tokens: int = 1024,
        context_tokens: int | None = None,
        path: str = "rules",
    ) -> None:
        self.units = {text: list(found) for text, found in (units or {}).items()}
        self.verdicts = dict(verdicts or {})
        self.faults = {k: [v] if isinstance(v, str) else list(v) for k, v in (faults or {}).items()}
        self.lang = lang
        self.seconds_per_call = seconds_per_call
        self.die_after = die_after
        self.max_tokens = max_tokens
        self._context_tokens = context_tokens
        self.path = path
        self.calls: list[Call] = []
        for fault in (fault for some in self.faults.values() for fault in some):
            if fault not in FAULTS:
                raise ConfigError(f"no fault {fault!r}; known: {', '.join(FAULTS)}")

    def identity(self) -> Mapping[str, Any]:
        """Return what decides the answers when all is well."""
        return {
            "type": "ScriptedJudge",
            "path": self.path,
            "lang": self.lang,
            "units": self.units,
            "verdicts": self.verdicts,
        }

    @property
    def context_tokens(self) -> int | None:
        """Tokens the judge takes at once."""
        return self._context_tokens

    def ask(self, calls: Iterable[Call]) -> Iterator[tuple[int, Reply]]:
        """Answer the calls one after another."""
        for number, call in enumerate(calls):
            time.sleep(self.seconds_per_call)
            self.calls.append(call)
            yield number, self._misbehave(call, self._answer(call))
            if self.die_after is not None and len(self.calls) >= self.die_after:
                os.kill(os.getpid(), 9)

    def _answer(self, call: Call) -> dict[str, Any]:
        texts = call.texts or {}
        if not call.units:
            return self._units_of(call.kind, texts["text"][0])
        verdicts = [
            self._verdict(call.kind, unit, texts["sources"], texts["query"]) for unit in call.units
        ]
        return {"verdicts": verdicts}

    def _units_of(self, kind: str, text: str) -> dict[str, Any]:
        sentences = [s.strip() for s in _SENTENCE_END.split(text) if s.strip()]
        if kind == "subquestions":
            return {"questions": self.units.get(text, sentences)}
        if kind == "facts":
            return {"facts": self.units.get(text, sentences)}
        claims = [s for s in sentences if not _REFUSAL.search(s)]
        return {"refusal": len(claims) < len(sentences), "claims": self.units.get(text, claims)}

    def _verdict(
        self, kind: str, unit: Unit, sources: Sequence[str], query: Sequence[str]
    ) -> dict[str, Any]:
        words = _words(unit.text)
        source: int | None = None
        if kind == "essential":
            is_yes = bool(words & _words(" ".join(query)))
        elif kind == "same":
            is_yes = words == _words(sources[0])
        else:
            found = [i for i, text in enumerate(sources, start=1) if words <= _words(text)]
            is_yes, source = bool(found), found[0] if found else None
        said = self.verdicts.get(f"{kind}|{unit.text}", self.verdicts.get(unit.text))
        if said is None:
            said = ("yes" if is_yes else "no") if self.lang != "zh" else ("是" if is_yes else "否")
        return {"id": unit.id, "why": "by rule", "verdict": said, "source": source}

    def _misbehave(self, call: Call, answer: dict[str, Any]) -> Reply:
        prompt = call.messages[0]["content"]
        fault = next((f.pop(0) for part, f in self.faults.items() if part in prompt and f), None)
        text = json.dumps(answer, ensure_ascii=False)
        sizes = (len(prompt) // 4, len(text) // 4)
        if fault in ("timeout", "rate_limited", "unavailable"):
            return Reply(None, reason=f"judge_{fault}", message="scripted", attempts=3)
        if fault == "unusable":
            raise ModelError("scripted: the judge cannot be used")
        if fault == "cut":
            return Reply(text[: len(text) // 2], "length", *sizes)
        if fault is not None:
            text = _spoilt(fault, answer)
        return Reply(text, "stop", *sizes)


def _spoilt(fault: str, answer: dict[str, Any]) -> str:
    verdicts = answer.get("verdicts", [])
    if fault == "prose":
        return "I think that is right. Anything else I can do?"
    if fault == "empty":
        answer = {key: [] for key in answer if key != "refusal"}
    elif fault == "missing":
        verdicts.pop()
    elif fault == "extra":
        verdicts.append({**verdicts[-1], "id": 99})
    elif fault == "contradictory":
        flipped = "no" if verdicts[0]["verdict"] == "yes" else "yes"
        verdicts.append({**verdicts[0], "verdict": flipped})
    elif fault == "unreadable":
        verdicts[0]["verdict"] = "yes and no"
    elif fault == "wrong_key":
        answer = {f"{key}s": value for key, value in answer.items()}
    return json.dumps(answer, ensure_ascii=False)


def _words(text: str) -> frozenset[str]:
    letters = re.findall(r"\w+", text.casefold())
    is_wide = any(ord(c) >= 0x2E80 for c in text)
    return frozenset(text if is_wide else (word for word in letters if len(word) >= 4))
