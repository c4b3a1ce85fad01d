"""The closed vocabulary of verdicts: a word is matched whole, or it is no verdict."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from opencompass_ext.errors import ConfigError

VerdictWord = Literal["yes", "no", "unsure"]
_STATES: tuple[VerdictWord, ...] = ("yes", "no", "unsure")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one language.

    Attributes:
        asked: The words prompts ask for: yes, no, unsure.
        meaning: Every word that is understood, normalised -> what it means.
        likelihood: The spellings of yes and no whose likelihood is compared.
    """

    asked: tuple[str, str, str]
    meaning: Mapping[str, VerdictWord]
    likelihood: Mapping[str, tuple[str, ...]]

    def read(self, said: str) -> VerdictWord | None:
        """Return what a verdict word means; None when it is not in the vocabulary.

        Example:
            >>> words = Words(("yes", "no", "unsure"), {"yes": "yes", "not supported": "no"}, {})
            >>> words.read(" YES! "), words.read("Not supported."), words.read("yes and no")
            ('yes', 'no', None)
        """
        return self.meaning.get(normalise(said))


def normalise(said: str) -> str:
    r"""Return a verdict word without case, zero-width marks, and what stands around it.

    Example:
        >>> normalise(" Yes" + chr(0x200B) + "."), normalise("“不支持。”"), normalise("-1")
        ('yes', '不支持', '-1')
    """
    # Of the format characters (Cf) many do have a meaning, but none inside a verdict word.
    visible = "".join(c for c in said if unicodedata.category(c) != "Cf")
    word = " ".join(unicodedata.normalize("NFKC", visible).split()).casefold().replace("’", "'")
    return word.strip("".join({c for c in word if _is_wrapping(c)}) + " ") or word


def _is_wrapping(character: str) -> bool:
    # Signs of numbers are no wrapping: -1 is not 1.
    return (
        unicodedata.category(character).startswith("P") and character != "-"
    ) or character in "*`~"


def read_words(content: Any, path: Path) -> Words:
    """Check the content of a ``words.json``.

    Raises:
        ConfigError: A list is missing or empty, or a word means two things.
    """

    def words_at(owner: Any, key: str, where: str) -> tuple[str, ...]:
        found: Any = owner.get(key) if isinstance(owner, Mapping) else None
        is_right = (
            isinstance(found, list) and found and all(isinstance(w, str) and w for w in found)
        )
        if not is_right:
            raise ConfigError(f"{path}: {where}{key} must be a list of words, got {found!r}")
        return tuple(found)

    meaning: dict[str, VerdictWord] = {}
    for state in _STATES:
        for word in words_at(content, state, ""):
            if meaning.setdefault(normalise(word), state) != state:
                raise ConfigError(
                    f"{path}: {word!r} stands under both {meaning[normalise(word)]!r} and {state!r}"
                )
    return Words(
        asked=(content["yes"][0], content["no"][0], content["unsure"][0]),
        meaning=meaning,
        likelihood={
            state: words_at(content.get("likelihood"), state, "likelihood.")
            for state in ("yes", "no")
        },
    )
