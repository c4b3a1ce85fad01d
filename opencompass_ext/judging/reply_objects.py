"""Which object of a judge's reply is its answer, or what is wrong with it.

Judges wrap their answer in code fences and prose, and think before it: thinking is left out, and
what stands around the object is read over. They also draft, change their mind, and quote the text
they judge, which may hold an answer of its own, or the tag that ends thinking; so a reply counts
only where there is no doubt which object is meant: nothing is cut off behind it, and no other
object says something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from opencompass_ext.judging.prompts.fence import HALF_SURROGATE_PAIR

Form = TypeVar("Form", bound=BaseModel)

_THINKING_TAG = re.compile(
    r"<(/?)(think|thinking|thought|reasoning|reflection|scratchpad)\s*>", re.IGNORECASE
)
# Places where an object may begin that are tried: a bound on the work for a reply that is nothing
# but braces.
_MOST_TRIES = 2000
# What may stand behind the object of a cut reply: it is whole, and only its padding was cut.
_PADDING = "` \t\r\n\ufeff"


class ReplyError(Exception):
    """A reply cannot be used; the text says why, in words fit to tell the judge."""


class DoubtError(ReplyError):
    """A reply has the form that was asked for, and still cannot be used."""


def find_object(
    text: str,
    form: type[Form],
    field: str,
    meaning: Callable[[Form], Hashable],
    *,
    is_cut: bool,
    quotes_tags: bool = False,
) -> Form:
    r"""Return the object of a reply that has the right form.

    Args:
        text: The reply.
        form: The form.
        field: The key that makes an object an answer, or an attempt at one.
        meaning: What an object says; objects that say the same may stand side by side.
        is_cut: Whether the token limit ended the reply: nothing but padding may then stand behind
            the object, for who knows what was to come.
        quotes_tags: Whether the judged text has tags of thinking, so that one that only closes may
            be a quotation: what stands before it then counts as well.

    Raises:
        ReplyError: There is none, or there is doubt which one is meant.

    Example:
        >>> from opencompass_ext.judging.prompts.formats import Facts
        >>> find_object('<think>{"facts": []}?</think>```json\\n{"facts": ["</think>"]}\\n```',
        ...             Facts, "facts", str, is_cut=False).facts
        ['</think>']
    """
    if HALF_SURROGATE_PAIR.search(text):
        raise DoubtError("it holds half of a surrogate pair, which is no character")
    try:
        content = _decode(text)
    except ValueError:
        found = _answers(text, field, quotes_tags)
    else:
        return _validate(content, form)
    if not found.contents:
        raise ReplyError(_why_no_object(text))
    if found.is_open:
        raise ReplyError("it holds no complete JSON object, or another one that is not")
    replies = [_validate(content, form) for content in found.contents]
    if is_cut and text[found.end :].strip(_PADDING):
        raise ReplyError("it goes on behind its JSON object, and is cut there")
    if len({meaning(reply) for reply in replies}) > 1:
        raise DoubtError("it holds several JSON objects that say different things")
    return replies[-1]


class _Answers(NamedTuple):
    """The objects of a reply that are, or were meant as, answers.

    Attributes:
        contents: In their order; with nothing that is an attempt at one, all other objects.
        end: Where the last one ends.
        is_open: Whether another one is not complete.
    """

    contents: Sequence[Any]
    end: int
    is_open: bool


def has_thinking_tag(texts: Iterable[str]) -> bool:
    """Return whether a text has a tag that could be taken for the judge's own thinking.

    Example:
        >>> has_thinking_tag(["Tea.", "Hm. </think> Tea."]), has_thinking_tag(["Tea > milk."])
        (True, False)
    """
    return any(_THINKING_TAG.search(text) for text in texts)


def _answers(text: str, field: str, quotes_tags: bool) -> _Answers:
    """Return the objects that stand outside thinking."""
    objects, open_at = _objects(text)
    answer_starts = 0
    open_since: int | None = None
    for tag in _THINKING_TAG.finditer(text):
        if any(start < tag.start() < end for start, end, _ in objects):
            continue  # inside a JSON string: a text about such tags
        if tag[1]:
            if open_since is not None or not quotes_tags:
                answer_starts = tag.end()
            open_since = None
        elif open_since is None:
            open_since = tag.start()
    answer_ends = len(text) if open_since is None else open_since
    outside = [o for o in objects if answer_starts <= o[0] and o[1] <= answer_ends]
    meant = [o for o in outside if isinstance(o[2], dict) and field in o[2]] or outside
    # One in single quotes, say, is an answer too, though nobody can read it.
    attempt = re.compile(rf"""\{{\s*["']?{field}["']?\s*:""")
    broken = any(
        not any(start <= found.start() < end for start, end, _ in objects)
        for found in attempt.finditer(text, answer_starts, answer_ends)
    )
    is_open = broken or (open_at is not None and answer_starts <= open_at < answer_ends)
    end = meant[-1][1] if meant else 0
    return _Answers([content for _, _, content in meant], end, is_open)


def _objects(text: str) -> tuple[list[tuple[int, int, Any]], int | None]:
    """Return start, end and content of each complete JSON object, outermost ones only.

    Also where the first object begins that is still open at the end of the text.
    """
    decoder = _decoder()
    objects: list[tuple[int, int, Any]] = []
    open_at: int | None = None
    position = text.find("{")
    for _ in range(_MOST_TRIES):
        if position < 0:
            return objects, open_at
        try:
            content, end = decoder.raw_decode(text, position)
        except RecursionError:
            return objects, position
        except ValueError as error:
            if open_at is None and _ends_open(error, text):
                open_at = position
            end = position + 1
        else:
            objects.append((position, end, content))
        position = text.find("{", end)
    return objects, position if position >= 0 and open_at is None else open_at


def _ends_open(error: ValueError, text: str) -> bool:
    """Return whether what was decoded was right so far when the text ended."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")


def _decode(text: str) -> Any:
    try:
        return _decoder().decode(text.strip().removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_without_twins, parse_constant=_no_value)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return content


def _no_value(constant: str) -> None:
    # NaN is no value; where one is needed, its lack is told.
    return None


def _validate(content: Any, form: type[Form]) -> Form:
    if HALF_SURROGATE_PAIR.search(json.dumps(content, ensure_ascii=False)):
        raise DoubtError("it holds half of a surrogate pair, which is no character")
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
