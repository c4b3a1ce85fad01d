"""What a judge's reply says, unit by unit, or what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from opencompass_ext.judging.base import Unit
from opencompass_ext.judging.prompts.formats import UNIT_LISTS, Claims, UnitVerdict, Verdicts
from opencompass_ext.judging.prompts.words import VerdictWord, Words
from opencompass_ext.judging.reply_objects import DoubtError, ReplyError, find_object


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


def read_units(
    kind: str, text: str, *, is_cut: bool = False, quotes_tags: bool = False
) -> ReadUnits:
    """Read the reply to a decomposition.

    Args:
        kind: Of the question.
        text: The reply.
        is_cut: Whether the token limit ended it.
        quotes_tags: See ``find_object``.

    Raises:
        ReplyError: It has no object of the right form, or there is doubt which one is meant.

    Example:
        >>> read_units("facts", 'Sure! {"facts": ["a", " ", "a", "b"]} Anything else?').units
        ('a', 'b')
    """
    form, field = UNIT_LISTS[kind]

    def meaning(reply: BaseModel) -> ReadUnits:
        stripped = (unit.strip() for unit in getattr(reply, field))
        units = tuple(dict.fromkeys(unit for unit in stripped if unit))
        return ReadUnits(units, isinstance(reply, Claims) and reply.refusal)

    return meaning(find_object(text, form, field, meaning, is_cut=is_cut, quotes_tags=quotes_tags))


def read_verdicts(
    units: Sequence[Unit],
    text: str,
    words: Words,
    *,
    ignored: Sequence[int] = (),
    is_cut: bool = False,
    quotes_tags: bool = False,
    by_likelihood: bool = False,
) -> ReadVerdicts:
    """Read the reply to a question with units.

    An id that was not asked for puts all verdicts in doubt, as with a judge that counts from 0: it
    then stands under ``problems`` with every unit.

    Args:
        units: The units asked for.
        text: The reply.
        words: The vocabulary.
        ignored: Ids that may stand in the reply as well and are not read.
        is_cut: Whether the token limit ended the reply.
        quotes_tags: See ``find_object``.
        by_likelihood: Whether a probability is one that was measured. One that a judge makes up
            is not read.

    Raises:
        ReplyError: It has no object of the right form, or there is doubt which one is meant.
    """

    def meaning(reply: Verdicts) -> Hashable:
        return frozenset((v.id, words.read(v.verdict) or v.verdict) for v in reply.verdicts)

    said: dict[int, list[UnitVerdict]] = {}
    reply = find_object(text, Verdicts, "verdicts", meaning, is_cut=is_cut, quotes_tags=quotes_tags)
    for verdict in reply.verdicts:
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
    for i in (i for i in asked if i in said):
        first = said[i][0]
        try:
            word = _word_of_all(said[i], words)
        except ReplyError as error:
            problems[i] = "judge_error"
            errors.append(str(error))
        else:
            probability = first.probability if by_likelihood else None
            verdicts[i] = ReadVerdict(word, first.why, first.source, probability)
    return ReadVerdicts(verdicts, problems, "; ".join(errors))


def has_form(kind: str, text: str) -> bool:
    """Return whether a whole reply to a question of this kind holds an object of its form.

    Example:
        >>> has_form("facts", '<think>Hm.</think> {"facts": []}'), has_form("facts", "Sure!")
        (True, False)
    """
    form, field = UNIT_LISTS.get(kind, (Verdicts, "verdicts"))
    try:
        find_object(text, form, field, lambda reply: 0, is_cut=False)
    except DoubtError:
        return True
    except ReplyError:
        return False
    return True


def _word_of_all(verdicts: Sequence[UnitVerdict], words: Words) -> VerdictWord:
    """Return what all verdicts on one unit say.

    Raises:
        ReplyError: They do not say the same, or what they say is no verdict.
    """
    unit, said = verdicts[0].id, verdicts[0].verdict
    meanings = {words.read(verdict.verdict) for verdict in verdicts}
    if len(meanings) > 1:
        raise ReplyError(f"the verdicts for unit {unit} contradict each other")
    word = meanings.pop()
    if word is None:
        shown = json.dumps(said[:40], ensure_ascii=False)
        raise ReplyError(f"{shown} for unit {unit} is no verdict")
    return word


def _list(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:20]))
    return shown if len(ids) <= 20 else f"{shown} and {len(ids) - 20} more"
