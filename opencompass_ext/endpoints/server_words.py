"""What servers say when they give no answer, and the key kept out of all they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HIDDEN_KEY = "<key>"
# Endpoints without a check are given words such as "EMPTY", which may stand in any text.
_LEAST_SECRET_CHARS = 8


def words_of(content: Any) -> str:
    """Return what the body of a refusal says is wrong.

    Example:
        >>> words_of({"error": {"message": "model overloaded", "code": 503}})
        'model overloaded'
    """
    for name in ("error", "message", "detail"):
        if isinstance(content, Mapping) and name in content:
            content = content[name]
    return content if isinstance(content, str) else str(content)


def error_in(content: Any) -> tuple[Any, int | None] | None:
    """Return the error that stands in place of an answer, and the status it names, if any.

    Gateways pass on the errors of what stands behind them under status 200.

    Example:
        >>> error_in({"error": {"message": "busy", "code": 429}})
        ({'message': 'busy', 'code': 429}, 429)
        >>> error_in({"choices": [{}], "error": None})
    """
    if not isinstance(content, Mapping):
        return None
    error = content.get("error")
    choices = content.get("choices")
    if not error and isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        first = choices[0]
        error = first.get("error") if first.get("finish_reason") == "error" else None
    elif choices:
        return None
    if not error:
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    try:
        status = int(code) if isinstance(code, (int, str)) else None
    except ValueError:
        status = None
    return error, status if status is not None and 400 <= status < 600 else None


def without_key(content: Any, key: str | None) -> Any:
    """Return a copy of decoded JSON in which the key stands nowhere.

    A key that is a word, or shorter than eight characters, is no secret, and hiding it would
    change what was said.

    Example:
        >>> without_key({"choices": ["You sent sk-12345."]}, "sk-12345")
        {'choices': ['You sent <key>.']}
    """
    if key is None or len(key) < _LEAST_SECRET_CHARS or key.isalpha():
        return content
    if isinstance(content, str):
        return content.replace(key, HIDDEN_KEY)
    if isinstance(content, Mapping):
        return {without_key(name, key): without_key(value, key) for name, value in content.items()}
    if isinstance(content, list):
        return [without_key(item, key) for item in content]
    return content
