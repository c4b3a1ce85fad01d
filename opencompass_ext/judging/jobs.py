"""One call to a judge, from its first reply to what is made of it.

A job takes a reply and either delivers to its result or names the jobs that go on in its place:

    no answer                      -> the reason it came with
    cut by the token limit         -> once more with half the units, or twice the limit;
                                      then "judge_truncated"
    a list up to the bound that    -> each half of the text by itself, down to one sentence;
    a judge keeps lists within        then "judge_truncated"
    unreadable, missing, ...       -> once more for those units, told what was wrong;
                                      then "judge_error" or "incomplete_verdicts"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, Protocol

from opencompass_ext.judging.base import Call, Reply, Unit
from opencompass_ext.judging.prompts.render import repair_messages
from opencompass_ext.judging.prompts.templates import Templates
from opencompass_ext.judging.replies import ReadUnits, ReadVerdict, read_units, read_verdicts
from opencompass_ext.judging.reply_objects import ReplyError, has_thinking_tag
from opencompass_ext.judging.results import DecomposeResult, MatchResult, Part

EMPTY_LIST = "the list is empty, although the text is not"
_BOUND = "a list, or a unit in it, is as long as the judge lets it grow, so it may go on"


class Taken(NamedTuple):
    """What became of a reply.

    Attributes:
        next_jobs: Calls to make now.
        parsed: What was understood, as plain JSON, for the transcript.
        problem: What was wrong; None if nothing was, so that the reply may be used again.
        stands: Whether what was understood counts all the same.
    """

    next_jobs: list[Job]
    parsed: Any
    problem: str | None
    stands: bool = False


class Job(Protocol):
    """A call whose reply somebody waits for."""

    call: Call

    def take(self, reply: Reply, key: str) -> Taken:
        """Take the reply to ``call``; ``key`` is the hash it has in the transcript."""


@dataclass(frozen=True)
class Tries:
    """How often a job may still go on.

    Attributes:
        repairs: Times a reply that cannot be used is asked for again.
        enlargements: Times a reply that was cut is asked for again.
    """

    repairs: int = 1
    enlargements: int = 1


@dataclass
class DecomposeJob:
    """Asks for the units of one part of a text.

    Attributes:
        part: Which one, as ``DecomposeResult`` names it.
        halves: Makes the calls for the halves of the text of a call; none for one sentence.
    """

    call: Call
    result: DecomposeResult
    part: Part
    templates: Templates
    halves: Callable[[Call], Sequence[Call]]
    tries: Tries = field(default_factory=Tries)

    def take(self, reply: Reply, key: str) -> Taken:
        """Take the units, or ask again."""
        self.result.note(key)
        if reply.text is None:
            return self._fail(*_unanswered(reply, self.tries))
        if reply.finish_reason == "bound":
            return self._ask_by_halves()
        is_cut = reply.finish_reason == "length"
        try:
            read = read_units(
                self.call.kind, reply.text, is_cut=is_cut, quotes_tags=_quotes_tags(self.call)
            )
        except ReplyError as error:
            return self._ask_again(reply.text, str(error), is_cut)
        is_empty = not read.units and not read.is_refusal
        if is_empty and self.tries.repairs:
            return self._ask_again(reply.text, EMPTY_LIST)
        if is_empty and self.call.kind == "subquestions":
            return self._fail("judge_error", EMPTY_LIST)
        self.result.put(self.part, read)
        # An empty list stands when it is given twice, but is no reply to give again later.
        problem = EMPTY_LIST if is_empty else None
        return Taken([], _units_json(read), problem, stands=is_empty)

    def _ask_again(self, reply: str, error: str, is_cut: bool = False) -> Taken:
        tries = self.tries
        if is_cut:
            if not tries.enlargements:
                return self._fail("judge_truncated", _truncated(self.call))
            call = replace(self.call, max_tokens=2 * self.call.max_tokens)
            tries = replace(tries, enlargements=tries.enlargements - 1)
            error = _truncated(self.call)
        else:
            if not tries.repairs:
                return self._fail("judge_error", error)
            call = replace(
                self.call, messages=repair_messages(self.templates, self.call, reply, error)
            )
            tries = replace(tries, repairs=tries.repairs - 1)
        return Taken([replace(self, call=call, tries=tries)], None, error)

    def _ask_by_halves(self) -> Taken:
        calls = self.halves(self.call)
        if not calls:
            return self._fail("judge_truncated", _BOUND)
        parts = self.result.split(self.part, len(calls))
        jobs: list[Job] = [
            replace(self, call=call, part=part) for call, part in zip(calls, parts, strict=True)
        ]
        return Taken(jobs, None, _BOUND)

    def _fail(self, reason: str, message: str) -> Taken:
        self.result.fail(reason)
        return Taken([], {"reason": reason}, message)


@dataclass
class MatchJob:
    """Asks for the verdicts of some units on some texts.

    Attributes:
        first_call: The call as it was before any repair: all its ids may come back.
        owners: Unit of the question that each unit of the call belongs to, by id.
        source_ids: Id of each source of the call, in the order of their numbers.
    """

    call: Call
    result: MatchResult
    owners: dict[int, int]
    source_ids: Sequence[str]
    templates: Templates
    tries: Tries = field(default_factory=Tries)
    first_call: Call | None = None

    def take(self, reply: Reply, key: str) -> Taken:
        """Take the verdicts that can be used, and ask again for the others."""
        self.result.note(key, [self.owners[unit.id] for unit in self.call.units])
        if reply.text is None:
            return self._fail(self.call.units, *_unanswered(reply, self.tries))
        original = self.first_call or self.call
        asked = {unit.id for unit in self.call.units}
        try:
            read = read_verdicts(
                self.call.units,
                reply.text,
                self.templates.words,
                ignored=[unit.id for unit in original.units if unit.id not in asked],
                is_cut=reply.finish_reason == "length",
                quotes_tags=_quotes_tags(self.call),
                by_likelihood=self.call.words is not None,
            )
        except ReplyError as error:
            if reply.finish_reason == "length":
                return self._ask_for_more()
            return self._ask_again(self.call.units, reply.text, str(error), "judge_error")
        for i, verdict in read.verdicts.items():
            self.result.put(self.owners[i], verdict, self._source_id(verdict))
        said = [_verdict_json(i, verdict) for i, verdict in sorted(read.verdicts.items())]
        if not read.problems:
            return Taken([], said, None)
        left = [unit for unit in self.call.units if unit.id in read.problems]
        if self.tries.repairs:
            return self._ask_again(left, reply.text, read.error)._replace(parsed=said)
        for unit in left:
            self.result.fail(self.owners[unit.id], read.problems[unit.id])
        return Taken([], said, read.error)

    def _ask_again(
        self, units: Sequence[Unit], reply: str, error: str, reason: str = "judge_error"
    ) -> Taken:
        if not self.tries.repairs:
            return self._fail(units, reason, error)
        original = self.first_call or self.call
        ids = [unit.id for unit in units]
        call = replace(
            self.call,
            messages=repair_messages(self.templates, original, reply, error, ids),
            units=tuple(units),
        )
        tries = replace(self.tries, repairs=self.tries.repairs - 1)
        return Taken([replace(self, call=call, tries=tries, first_call=original)], None, error)

    def _ask_for_more(self) -> Taken:
        """Ask for half as much twice, or for a single unit with twice the limit."""
        if not self.tries.enlargements:
            return self._fail(self.call.units, "judge_truncated", _truncated(self.call))
        tries = replace(self.tries, enlargements=self.tries.enlargements - 1)
        units = self.call.units
        if len(units) == 1:
            calls = [replace(self.call, max_tokens=2 * self.call.max_tokens)]
        else:
            half = len(units) // 2
            calls = [self.result.again(self.call, part) for part in (units[:half], units[half:])]
        jobs: list[Job] = [replace(self, call=call, tries=tries, first_call=None) for call in calls]
        return Taken(jobs, None, _truncated(self.call))

    def _source_id(self, verdict: ReadVerdict) -> str | None:
        number = verdict.source
        if verdict.word != "yes" or not self.source_ids:
            return None
        if len(self.source_ids) == 1:
            return self.source_ids[0]
        is_known = number is not None and 1 <= number <= len(self.source_ids)
        return self.source_ids[number - 1] if is_known and number is not None else None

    def _fail(self, units: Sequence[Unit], reason: str, message: str) -> Taken:
        for unit in units:
            self.result.fail(self.owners[unit.id], reason)
        return Taken([], {"reason": reason}, message)


def _quotes_tags(call: Call) -> bool:
    texts = chain.from_iterable((call.texts or {}).values())
    return has_thinking_tag(chain(texts, (unit.text for unit in call.units)))


def _unanswered(reply: Reply, tries: Tries) -> tuple[str, str]:
    reason = reply.reason or "judge_error"
    if reason == "too_long_for_judge" and not tries.enlargements:
        # Only the larger limit was refused: it is the cut reply that is the trouble.
        reason = "judge_truncated"
    return reason, reply.message or reason


def _truncated(call: Call) -> str:
    return f"the reply was cut at max_tokens={call.max_tokens}; raise max_tokens of the judge"


def _units_json(read: ReadUnits) -> dict[str, Any]:
    return {"units": list(read.units), "is_refusal": read.is_refusal}


def _verdict_json(unit_id: int, verdict: ReadVerdict) -> dict[str, Any]:
    row: dict[str, Any] = {"id": unit_id, "verdict": verdict.word}
    if verdict.probability is not None:
        row["probability"] = verdict.probability
    return row
