"""Checks of the values a config gives to a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.checks import check_least
from opencompass_ext.errors import ConfigError


def check_choice(name: str, value: Any, choices: tuple[str, ...], or_int: bool = False) -> None:
    """Check that ``value`` is one of ``choices``, or a token id where ``or_int``.

    Raises:
        ConfigError: It is not.
    """
    is_id = or_int and isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value not in choices and not is_id:
        also = " or a token id" if or_int else ""
        raise ConfigError(f"{name} must be one of {', '.join(choices)}{also}, got {value!r}")


def check_positive(**values: Any) -> None:
    """Check that each value that is given is a whole number of at least 1.

    Raises:
        ConfigError: One is not.
    """
    check_least(1, may_be_none=True, **values)


def check_stop_words(**lists: Sequence[str] | None) -> None:
    """Check that each value that is given is a list of texts that are not empty.

    Raises:
        ConfigError: One is not: an empty text would end every answer before it begins.
    """
    for name, words in lists.items():
        if isinstance(words, str):
            raise ConfigError(
                f"{name} must be a list of texts, such as [{words!r}], got the string {words!r}"
            )
        for word in words or ():
            if not isinstance(word, str) or not word:
                raise ConfigError(f"{name} must hold texts that are not empty, got {word!r}")


def as_plain_json(value: Any) -> Any:
    """Return ``value`` with everything that JSON does not know, such as a torch.dtype, as text.

    Example:
        >>> as_plain_json({"layers": (1, 2), "number": 1j})
        {'layers': [1, 2], 'number': '1j'}
    """
    if isinstance(value, Mapping):
        return {str(key): as_plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain_json(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
