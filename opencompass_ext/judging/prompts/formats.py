"""The form of the replies: pydantic models that read them, and the JSON schemas asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from opencompass_ext.errors import MissingDependencyError

try:
    from pydantic import BaseModel, BeforeValidator, StrictBool, StrictStr
except ModuleNotFoundError as error:
    raise MissingDependencyError("pydantic", needed_for="judging", extra="judge") from error


def _whole_number(value: Any) -> Any:
    # A number in quotes is clear enough; true, which Python takes for 1, is not.
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


def _source_number(value: Any) -> Any:
    try:
        return _whole_number(value)
    except ValueError:
        return None


def _text_if_text(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _share_if_share(value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= 1 else None


Number = Annotated[int, BeforeValidator(_whole_number)]


class Claims(BaseModel):
    """Reply to ``claims``."""

    refusal: StrictBool = False
    claims: list[StrictStr]


class Facts(BaseModel):
    """Reply to ``facts``."""

    facts: list[StrictStr]


class Subquestions(BaseModel):
    """Reply to ``subquestions``."""

    questions: list[StrictStr]


class UnitVerdict(BaseModel):
    """One verdict; its word is matched against the vocabulary of the language later.

    What stands beside the verdict must not cost it: of another form, it is left out.
    """

    id: Number
    why: Annotated[str | None, BeforeValidator(_text_if_text)] = None
    verdict: StrictStr
    source: Annotated[int | None, BeforeValidator(_source_number)] = None
    probability: Annotated[float | None, BeforeValidator(_share_if_share)] = None


class Verdicts(BaseModel):
    """Reply to every question with units."""

    verdicts: list[UnitVerdict]


UNIT_LISTS: Mapping[str, tuple[type[BaseModel], str]] = {
    "claims": (Claims, "claims"),
    "facts": (Facts, "facts"),
    "subquestions": (Subquestions, "questions"),
}


def decompose_schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema of the units of a text."""
    _, field = UNIT_LISTS[kind]
    units = {"type": "array", "items": {"type": "string"}}
    properties: dict[str, Any] = {"refusal": {"type": "boolean"}} if kind == "claims" else {}
    return _object({**properties, field: units})


def verdict_schema(words: tuple[str, ...], *, has_sources: bool) -> dict[str, Any]:
    """Return the JSON schema of verdicts, ``words`` being those that may stand in one."""
    properties: dict[str, Any] = {
        "id": {"type": "integer"},
        # Before the verdict, so that it can be a reason for it.
        "why": {"type": "string"},
        "verdict": {"type": "string", "enum": list(words)},
    }
    if has_sources:
        properties["source"] = {"type": ["integer", "null"]}
    return _object({"verdicts": {"type": "array", "items": _object(properties)}})


def decompose_form(kind: str) -> str:
    """Return the reply in outline, to be shown in the prompt."""
    refusal = '"refusal": false, ' if kind == "claims" else ""
    return f'{{{refusal}"{UNIT_LISTS[kind][1]}": ["...", "..."]}}'


def verdict_form(words: tuple[str, ...], *, has_sources: bool) -> str:
    """Return the reply in outline, to be shown in the prompt.

    Example:
        >>> verdict_form(("yes", "no"), has_sources=False)
        '{"verdicts": [{"id": 1, "why": "...", "verdict": "yes|no"}, ...]}'
    """
    source = ', "source": 1|null' if has_sources else ""
    return (
        '{"verdicts": [{"id": 1, "why": "...", "verdict": "' + "|".join(words) + f'"{source}}}, '
        "...]}"
    )


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
