"""What a judge is: it takes calls and gives replies, in whatever order they finish."""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

Message = Mapping[str, str]

_LETTERS = re.compile("[A-Za-z]")

REPLY_FORMATS = ("json_schema", "json_object", "text")
"""How an endpoint can be asked for JSON, the strictest way first."""


class Unit(NamedTuple):
    """A unit and the number it has in a prompt."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a judge.

    Attributes:
        kind: Of the question it belongs to.
        messages: The prompt, ``{"role", "content"}`` each.
        schema: JSON schema of the reply.
        max_tokens: Most tokens of the reply.
        prompt_version: Changes with every word of the templates that ``messages`` was made from.
        units: The units a verdict is asked for; empty for a decomposition.
        texts: What stands in the prompt as material, by role (``"text"``, ``"query"``,
            ``"sources"``), for judges that follow rules instead of reading.
        words: For a judge that answers by likelihood: the words that mean yes and no.
        part: Number of the part of a long text, and how many there are, counted from 1.
    """

    kind: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any]
    max_tokens: int
    prompt_version: str
    units: tuple[Unit, ...] = ()
    texts: Mapping[str, tuple[str, ...]] | None = None
    words: Mapping[str, tuple[str, ...]] | None = None
    part: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Attributes:
        text: The reply as it came; None when there is none.
        finish_reason: ``"stop"``, ``"length"`` when it was cut, ``"bound"`` when a list in it is as
            long as the judge lets it grow, or None where that is not told.
        input_tokens, output_tokens: As the judge counts them; None when it does not.
        seconds: Wall time, all attempts together.
        attempts: How often the request was sent.
        reason: Why there is no text: ``"judge_timeout"``, ``"judge_rate_limited"``,
            ``"judge_unavailable"``, ``"judge_error"`` or ``"too_long_for_judge"``.
        message: What the judge's side said about that.
        served_as: The name the judge gives itself.
        reply_format: How the form of the reply was asked for, where that was a choice.
        earlier: What was said to the same call before, in a form that nobody could read.
    """

    text: str | None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float = 0.0
    attempts: int = 1
    reason: str | None = None
    message: str | None = None
    served_as: str | None = None
    reply_format: str | None = None
    earlier: tuple[Reply, ...] = ()


class BaseJudge(ABC):
    """A judge. Building one connects to nothing and loads nothing.

    Attributes:
        max_tokens: Most tokens of one reply.
        answers_by_likelihood: Whether verdicts are read from the likelihood of words, so that a
            call has one unit and its prompt asks for one word.
        concurrency: Most calls that it works on at once.
    """

    max_tokens: int
    concurrency: int = 1
    answers_by_likelihood: ClassVar[bool] = False

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Return all that decides the answers besides the call, as plain JSON values."""

    @abstractmethod
    def ask(self, calls: Iterable[Call]) -> Iterator[tuple[int, Reply]]:
        """Yield each reply with the number of its call, counted from 0, as replies come.

        The calls are taken one by one, when there is room for another, so a generator of many
        calls stays a generator.

        Raises:
            ModelError: The judge cannot be used at all; asking the other calls would not help.
        """

    @property
    def context_tokens(self) -> int | None:
        """Tokens of prompt and reply together that the judge takes; None for no limit."""
        return None

    def count_tokens(self, text: str) -> int:
        """Return how many tokens ``text`` has for this judge, rather too many than too few."""
        return estimate_tokens(text)


def estimate_tokens(text: str) -> int:
    """Return a count that the usual tokenizers stay below, but for rare characters.

    A token for every 3 letters of ASCII, for every 2 blanks, for every other character of it, and
    for every 1.5 bytes of UTF-8 of the rest. English has about four letters a token; numbers, JSON
    and Chinese have far fewer.

    Example:
        >>> estimate_tokens("the cat sat"), estimate_tokens("3.14"), estimate_tokens("猫坐下了")
        (4, 4, 8)
    """
    ascii_chars = len(text.encode("ascii", "ignore"))
    other_bytes = len(text.encode("utf-8", "surrogatepass")) - ascii_chars
    letters, blanks = len(_LETTERS.findall(text)), text.count(" ")
    signs = ascii_chars - letters - blanks
    return signs + math.ceil(letters / 3 + blanks / 2 + other_bytes / 1.5)


def request_key(judge_identity: Mapping[str, Any], call: Call) -> str:
    """Return 32 hex digits that change with everything that can change a whole answer.

    So the limit of its tokens is not in it: a reply that was whole is the same under another limit.
    """
    content = {
        "judge": judge_identity,
        "kind": call.kind,
        "messages": list(call.messages),
        "schema": call.schema,
        "prompt_version": call.prompt_version,
        "words": call.words,
    }
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:32]
