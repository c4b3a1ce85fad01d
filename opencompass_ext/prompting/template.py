r"""Prompt templates that know where in the prompt each column ended up.

template   "Q: {question}\nA: {answer}"
columns    question="1+1?", answer="2"
rendered   "Q: 1+1?\nA: 2"             question at [3, 7), answer at [11, 12)
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.records import Message
from opencompass_ext.registry import PROMPT_TEMPLATES

logger = logging.getLogger(__name__)

DIALOGUE_KEYS = {"begin", "round", "end"}
_CHAT_ROLES = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}


class InsertedColumn(NamedTuple):
    """A column's value at characters ``[start, end)`` of a rendered prompt."""

    column: str
    start: int
    end: int


class Rendered(NamedTuple):
    """A prompt, and where each column stands in it, in order."""

    text: str
    inserted: tuple[InsertedColumn, ...]

    def places_of(self, column: str) -> list[InsertedColumn]:
        """Return the places at which ``column`` was inserted."""
        return [place for place in self.inserted if place.column == column]


@PROMPT_TEMPLATES.register_module()
class PromptTemplate:
    """A template with ``{column}`` fields, filled in one pass and verbatim.

    What a column holds is never read as a template: a text that contains ``{label}`` keeps it.
    Braces in the template around a name that is no column stay as they are, with a warning; a name
    that looks like a misspelt column is refused.

    Args:
        template: A string, or a dialogue ``dict(round=[dict(role=..., prompt=...), ...])`` with
            optional ``begin`` and ``end``. Without a model's ``meta_template`` the prompts of a
            dialogue are joined by line breaks.
        ice_token: Marks where in-context examples go, such as ``"</E>"``.

    Example:
        >>> PromptTemplate("Q: {q} {x}").render({"q": "{x}"})
        Rendered(text='Q: {x} {x}', inserted=(InsertedColumn(column='q', start=3, end=6),))
    """

    def __init__(self, template: str | Mapping[str, Any], ice_token: str | None = None) -> None:
        if not isinstance(template, str):
            _check_dialogue(template)
        self.template = template
        self.ice_token = ice_token
        self._known_fields: set[str] = set()

    def inserts(self, column: str) -> bool:
        """Return whether the template inserts a column of this name into every prompt.

        Example:
            >>> PromptTemplate("Q: {question}").inserts("question")
            True
        """
        return f"{{{column}}}" in _whole_text(self.template)

    def render(
        self,
        columns: Mapping[str, Any],
        ice: str = "",
        meta_template: Mapping[str, Any] | None = None,
    ) -> Rendered:
        """Return the prompt for one row.

        Args:
            columns: The row; strings go in as they are, numbers by ``str``.
            ice: Text of the in-context examples, put where the ``ice_token`` stands.
            meta_template: The model's role markers, for a dialogue.

        Raises:
            DataError: A column of the template is null, or neither text nor number.
            ConfigError: There are examples and no place for them, a role is unknown, or a field
                looks like a misspelt column.
        """
        self._check_ice(ice)
        template = self.template
        if not isinstance(template, str):
            template = _join_dialogue(template, meta_template)
        self._check_fields(template, columns)
        return _fill(template, columns, self.ice_token, ice)

    def messages(self, columns: Mapping[str, Any], ice: str = "") -> tuple[Message, ...]:
        """Return the prompt for one row as the messages of a chat.

        A string template is one message of the user. A dialogue has one message for each turn:
        HUMAN becomes user, BOT assistant, SYSTEM system, any other role its lower case. Turns that
        are plain strings stand before the text of the next turn, and an empty last turn, which is
        where the model's answer goes, is left out.

        Args:
            columns: The row; see ``render``.
            ice: Text of the in-context examples, put where the ``ice_token`` stands.

        Raises:
            DataError, ConfigError: See ``render``.

        Example:
            >>> template = PromptTemplate(dict(round=[dict(role="HUMAN", prompt="{q}?")]))
            >>> template.messages({"q": "Why"})
            ({'role': 'user', 'content': 'Why?'},)
        """
        self._check_ice(ice)
        if isinstance(self.template, str):
            return ({"role": "user", "content": self.render(columns, ice).text},)
        messages: list[Message] = []
        before = ""
        for turn in _all_turns(self.template):
            prompt = turn if isinstance(turn, str) else turn.get("prompt", "")
            self._check_fields(prompt, columns)
            text = _fill(prompt, columns, self.ice_token, ice).text
            if isinstance(turn, str):
                before += text
                continue
            role = turn.get("role", "HUMAN")
            messages.append({"role": _CHAT_ROLES.get(role, role.lower()), "content": before + text})
            before = ""
        if before:
            messages.append({"role": "user", "content": before})
        if messages and not messages[-1]["content"]:
            messages.pop()
        return tuple(messages)

    def _check_ice(self, ice: str) -> None:
        if ice and (self.ice_token is None or self.ice_token not in _whole_text(self.template)):
            raise ConfigError(
                f"in-context examples have no place in the template {self.template!r}: put "
                f"ice_token={self.ice_token or '</E>'!r} into it"
            )

    def _check_fields(self, template: str, columns: Mapping[str, Any]) -> None:
        """Look, once for each name, at fields of the template that are no columns."""
        for name in re.findall(r"\{(\w+)\}", template):
            if name in columns or name in self._known_fields:
                continue
            self._known_fields.add(name)
            names = ", ".join(map(repr, columns))
            if difflib.get_close_matches(name.lower(), [c.lower() for c in columns], cutoff=0.75):
                raise ConfigError(
                    f"the template inserts {{{name}}}, and the data has the columns {names}: "
                    "is it misspelt?"
                )
            logger.warning(
                "the template %r keeps {%s} as text: the data has the columns %s",
                template,
                name,
                names,
            )


def _fill(template: str, columns: Mapping[str, Any], ice_token: str | None, ice: str) -> Rendered:
    fields = {f"{{{name}}}": name for name in columns}
    marks = [*fields, *([ice_token] if ice_token else [])]
    # Longest first, so that no mark hides another that begins with it.
    pattern = "|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True))
    parts: list[str] = []
    inserted: list[InsertedColumn] = []
    length = 0
    for part in re.split(f"({pattern})", template) if pattern else [template]:
        if part in fields:
            value = _as_text(fields[part], columns[fields[part]])
            inserted.append(InsertedColumn(fields[part], length, length + len(value)))
        else:
            value = ice if part == ice_token else part
        parts.append(value)
        length += len(value)
    return Rendered("".join(parts), tuple(inserted))


def _as_text(column: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return str(value)
    raise DataError(
        f"the template inserts the column {column!r}, which must hold text or a number, got "
        f"{value!r} ({type(value).__name__})"
    )


def _check_dialogue(template: Any) -> None:
    if not isinstance(template, Mapping) or "round" not in template:
        raise ConfigError(
            "a template must be a string, or a dict with 'round' (and 'begin', 'end'), got "
            f"{template!r}"
        )
    unknown = set(template) - DIALOGUE_KEYS
    if unknown:
        raise ConfigError(f"unknown keys {sorted(unknown)} in a dialogue template {template!r}")


def _turns(part: Any) -> Sequence[Any]:
    if not part:
        return []
    return [part] if isinstance(part, (str, Mapping)) else part


def _all_turns(template: Mapping[str, Any]) -> list[Any]:
    return [turn for key in ("begin", "round", "end") for turn in _turns(template.get(key))]


def _whole_text(template: str | Mapping[str, Any]) -> str:
    return template if isinstance(template, str) else _join_dialogue(template, None)


def _join_dialogue(template: Mapping[str, Any], meta_template: Mapping[str, Any] | None) -> str:
    turns = _all_turns(template)
    if meta_template is None:
        prompts = [turn if isinstance(turn, str) else turn.get("prompt", "") for turn in turns]
        return "\n".join(prompt for prompt in prompts if prompt)
    dressed = [turn if isinstance(turn, str) else _dress(turn, meta_template) for turn in turns]
    return "".join([meta_template.get("begin", ""), *dressed, meta_template.get("end", "")])


def _dress(turn: Mapping[str, Any], meta_template: Mapping[str, Any]) -> str:
    """Return a turn's prompt between the markers of its role."""
    roles = {
        role["role"]: role
        for role in [*meta_template.get("round", []), *meta_template.get("reserved_roles", [])]
    }
    markers = roles.get(turn.get("role")) or roles.get(turn.get("fallback_role"))
    if markers is None:
        raise ConfigError(
            f"the template uses the role {turn.get('role')!r}; the model's meta_template knows "
            f"{sorted(roles)}"
        )
    return markers.get("begin", "") + turn.get("prompt", "") + markers.get("end", "")
