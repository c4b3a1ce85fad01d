"""The templates of one language: read, checked, and filled in.

A language is a folder with one text file for each name in ``PLACEHOLDERS`` and a ``words.json``.
``{{name}}`` stands for what is filled in; single braces mean nothing.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from opencompass_ext.errors import ConfigError, did_you_mean
from opencompass_ext.judging.prompts.words import Words, read_words

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_PACKAGED = Path(__file__).parent


class _Names(NamedTuple):
    required: frozenset[str]
    optional: frozenset[str] = frozenset()


def _names(required: str, optional: str = "") -> _Names:
    return _Names(frozenset(required.split()), frozenset(optional.split()))


# What each template must and may name.
PLACEHOLDERS: Mapping[str, _Names] = {
    "claims": _names("material text form", "query"),
    "facts": _names("material text form", "query"),
    "subquestions": _names("material text form"),
    "essential": _names("material query units answer"),
    "covers": _names("material sources units answer", "query"),
    "supported": _names("material sources units answer", "query"),
    "same": _names("material sources units answer"),
    "material": _names("code"),
    "answer_verdicts": _names("yes no unsure form"),
    "answer_word": _names("yes no"),
    "repair": _names("error form"),
    "repair_verdicts": _names("error ids form"),
}


@dataclass(frozen=True)
class Templates:
    """The templates of one language.

    Attributes:
        texts: Template by name.
        words: The vocabulary.
    """

    texts: Mapping[str, str]
    words: Words
    _versions: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def fill(self, name: str, values: Mapping[str, str]) -> str:
        """Return a template with its placeholders filled in, each once and verbatim.

        Lines that are left blank because a value is empty are closed up; values are not touched.
        """
        template = self.texts[name]
        if empty := [key for key, value in values.items() if not value]:
            for key in empty:
                template = re.sub(r"\{\{\s*" + key + r"\s*\}\}\n*", "", template)
        return _PLACEHOLDER.sub(lambda found: values[found[1]], template)

    def version(self, kind: str) -> str:
        """Return 12 hex digits that change with any word of the templates ``kind`` is made of."""
        if kind in self._versions:
            return self._versions[kind]
        shared = ("material", "answer_verdicts", "answer_word", "repair", "repair_verdicts")
        content = [self.texts[name] for name in (kind, *shared)]
        content += [str(self.words.asked), str(sorted(self.words.meaning.items()))]
        self._versions[kind] = hashlib.sha256("\0".join(content).encode()).hexdigest()[:12]
        return self._versions[kind]


@functools.lru_cache
def load_templates(lang: str) -> Templates:
    """Return the templates of a language.

    Args:
        lang: ``"en"``, ``"zh"``, or the path of a folder with templates of your own.

    Raises:
        ConfigError: There is no such language or folder, or its files are not complete; all that
            is wrong is named at once.
    """
    folder = _find(lang)
    wanted = [f"{name}.txt" for name in PLACEHOLDERS] + ["words.json"]
    missing = [name for name in wanted if not (folder / name).is_file()]
    if missing:
        raise ConfigError(
            f"the judge's language folder {folder} lacks {', '.join(missing)}: copy them from "
            f"{_PACKAGED / 'en'} and translate them"
        )
    texts = {name: _read(folder / f"{name}.txt").strip() for name in PLACEHOLDERS}
    problems = [
        f"{folder / name}.txt: {problem}" for name in texts for problem in _check(name, texts[name])
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    path = folder / "words.json"
    try:
        content = json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: no valid JSON: {error.msg}") from error
    return Templates(texts, read_words(content, path))


def packaged_languages() -> list[str]:
    """Return the languages that come with the package."""
    return sorted(path.parent.name for path in _PACKAGED.glob("*/words.json"))


def _find(lang: str) -> Path:
    known = packaged_languages()
    if lang in known:
        return _PACKAGED / lang
    folder = Path(lang).expanduser()
    if folder.is_dir():
        return folder
    raise ConfigError(
        f"no language {lang!r} for the judge's prompts: {did_you_mean(lang, known)}; or give the "
        "path of a folder with templates of your own"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _check(name: str, text: str) -> list[str]:
    required, optional = PLACEHOLDERS[name]
    found = set(_PLACEHOLDER.findall(text))
    problems = [f"needs {{{{{n}}}}}, which is not there" for n in sorted(required - found)]
    for n in sorted(found - required - optional):
        hint = did_you_mean(n, sorted(required | optional))
        problems.append(f"there is nothing to put in the place of {{{{{n}}}}}: {hint}")
    return problems
