"""What a judge's reply says, or what is wrong with it.

A reply is read strictly first. Where it is no JSON by itself, thinking is left out and the last
complete object that has the right form is taken: judges wrap their answer in code fences and prose,
and think aloud in objects that are not meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from opencompass_ext.judging.base import Unit
from opencompass_ext.judging.prompts.formats import UNIT_LISTS, Claims, UnitVerdict, Verdicts
from opencompass_ext.judging.prompts.words import VerdictWord, Words

Form = TypeVar("Form", bound=BaseModel)

_THINKING_TAG = re.compile(
    r"<(/?)(think|thinking|thought|reasoning|reflection|scratchpad)\s*>", re.IGNORECASE
)
# Places where an object may begin that are tried, from the end: a bound on the work for a reply
# that is nothing but braces.
_MOST_TRIES = 2000


class ReplyError(Exception):
    """A reply cannot be used; the text says why, in words fit to tell the judge."""


@dataclass(frozen=True, slots=True)
class ReadUnits:
    """The units of a text, each once, none blank."""

    units: tuple[str, ...]
    is_refusal: bool


@dataclass(frozen=True, slots=True)
class ReadVerdict:
    """One verdict of a reply, its word understood."""

    word: VerdictWord
    why: str | None
    source: int | None
    probability: float | None


@dataclass(frozen=True, slots=True)
class ReadVerdicts:
    """The verdicts of a reply that can be used, by unit, and what is wrong with the others.

    Attributes:
        verdicts: By id of the unit.
        problems: By id of the unit: ``"incomplete_verdicts"`` for one that is missing,
            ``"judge_error"`` for one that contradicts itself or is no verdict.
        error: All problems in one sentence, to tell the judge; empty when there is none.
    """

    verdicts: Mapping[int, ReadVerdict]
    problems: Mapping[int, str]
    error: str


def read_units(kind: str, text: str) -> ReadUnits:
    """Read the reply to a decomposition.

    Raises:
        ReplyError: It has no object of the right form.

    Example:
        >>> read_units("facts", 'Sure! {"facts": ["a", " ", "a", "b"]} Anything else?').units
        ('a', 'b')
    """
    form, field = UNIT_LISTS[kind]
    reply = find_object(text, form)
    stripped = (unit.strip() for unit in getattr(reply, field))
    units = tuple(dict.fromkeys(unit for unit in stripped if unit))
    return ReadUnits(units, isinstance(reply, Claims) and reply.refusal)


def read_verdicts(
    units: Sequence[Unit], text: str, words: Words, *, ignored: Sequence[int] = ()
) -> ReadVerdicts:
    """Read the reply to a question with units.

    An id that was not asked for puts all verdicts in doubt, as with a judge that counts from 0: it
    then stands under ``problems`` with every unit.

    Args:
        units: The units asked for.
        text: The reply.
        words: The vocabulary.
        ignored: Ids that may stand in the reply as well and are not read.

    Raises:
        ReplyError: It has no object of the right form.
    """
    said: dict[int, list[UnitVerdict]] = {}
    for verdict in find_object(text, Verdicts).verdicts:
        said.setdefault(verdict.id, []).append(verdict)
    asked = [unit.id for unit in units]
    foreign = sorted(said.keys() - set(asked) - set(ignored))
    if foreign:
        error = f"there are verdicts for {_list(foreign)}, which are ids of no unit"
        return ReadVerdicts({}, dict.fromkeys(asked, "judge_error"), error)
    verdicts: dict[int, ReadVerdict] = {}
    problems: dict[int, str] = {}
    errors: list[str] = []
    missing = [i for i in asked if i not in said]
    if missing:
        problems.update(dict.fromkeys(missing, "incomplete_verdicts"))
        errors.append(f"there is no verdict for unit {_list(missing)}")
    for i in asked:
        if i in missing:
            continue
        meanings = {words.read(verdict.verdict) for verdict in said[i]}
        if len(meanings) > 1:
            problems[i] = "judge_error"
            errors.append(f"the verdicts for unit {i} contradict each other")
        elif (word := meanings.pop()) is None:
            problems[i] = "judge_error"
            shown = said[i][0].verdict[:40]
            errors.append(f"{json.dumps(shown, ensure_ascii=False)} for unit {i} is no verdict")
        else:
            first = said[i][0]
            verdicts[i] = ReadVerdict(word, first.why, first.source, first.probability)
    return ReadVerdicts(verdicts, problems, "; ".join(errors))


def find_object(text: str, form: type[Form]) -> Form:
    r"""Return the object of a reply that has the right form.

    Raises:
        ReplyError: There is none; the text says what is wrong with the last object.

    Example:
        >>> find_object('<think>{"facts": []}?</think>```json\\n{"facts": ["</think>"]}\\n```',
        ...             UNIT_LISTS["facts"][0]).facts
        ['</think>']
    """
    try:
        content = _decode(text)
    except ValueError:
        pass
    else:
        return _validate(content, form)
    problem: ReplyError | None = None
    for content in _objects_after_thinking(text):
        try:
            return _validate(content, form)
        except ReplyError as error:
            # The last object is the one most likely meant.
            problem = problem or error
    if problem is None or _is_cut(text):
        raise ReplyError(_why_no_object(text))
    raise problem


def _objects_after_thinking(text: str) -> Iterator[Any]:
    """Yield the complete objects that stand outside thinking, the last first."""
    objects = list(_objects(text))
    answer_starts = 0
    open_since: int | None = None
    for tag in _THINKING_TAG.finditer(text):
        if any(start < tag.start() < end for start, end, _ in objects):
            continue  # inside a JSON string: a text about such tags
        if tag[1]:
            answer_starts, open_since = tag.end(), None
        elif open_since is None:
            open_since = tag.start()
    answer_ends = len(text) if open_since is None else open_since
    for start, end, content in reversed(objects):
        if answer_starts <= start and end <= answer_ends:
            yield content


def _objects(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield start, end and content of each complete JSON object, outermost ones only."""
    decoder = _decoder()
    position = text.find("{")
    for _ in range(_MOST_TRIES):
        if position < 0:
            return
        try:
            content, end = decoder.raw_decode(text, position)
        except RecursionError:
            return
        except ValueError:
            end = position + 1
        else:
            yield position, end, content
        position = text.find("{", end)


def _decode(text: str) -> Any:
    try:
        return _decoder().decode(text.strip().removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_without_twins, parse_constant=_refuse)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return content


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _validate(content: Any, form: type[Form]) -> Form:
    try:
        return form.model_validate(content)
    except ValidationError as error:
        raise ReplyError("; ".join(_explain(error))) from error


def _explain(error: ValidationError) -> list[str]:
    problems = []
    for item in error.errors(include_url=False, include_context=False)[:3]:
        place = ".".join(map(str, item["loc"])) or "the reply"
        problems.append(f"{place}: {item['msg'][:1].lower()}{item['msg'][1:]}")
    return problems


def _is_cut(text: str) -> bool:
    """Return whether the first object is still open where the text ends."""
    start = text.find("{")
    if start < 0:
        return False
    try:
        _decoder().raw_decode(text, start)
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
    except (ValueError, RecursionError):
        pass
    return False


def _why_no_object(text: str) -> str:
    if not text.strip():
        return "it is empty"
    start = text.find("{")
    if start < 0:
        return "it holds no JSON object"
    try:
        _decoder().raw_decode(text, start)
    except json.JSONDecodeError as error:
        return f"it holds no complete JSON object ({error.msg.lower()})"
    except ValueError as error:
        return f"it holds no valid JSON object ({error})"
    except RecursionError:
        return "its JSON is nested too deeply"
    return "it holds no JSON object outside its thinking"


def _list(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:20]))
    return shown if len(ids) <= 20 else f"{shown} and {len(ids) - 20} more"
