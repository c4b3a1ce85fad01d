"""Checks of the numbers that a config gives."""

from __future__ import annotations

from typing import Any

from opencompass_ext.errors import ConfigError


def check_least(least: int, /, *, of: str = "", may_be_none: bool = False, **values: Any) -> None:
    """Check that each value is a whole number of at least ``least``.

    Args:
        least: The bound.
        of: What the values are arguments of, for the error.
        may_be_none: Whether None, for a value that is not given, will do as well.
        **values: Name in the config -> value.

    Raises:
        ConfigError: One is not.

    Example:
        >>> check_least(1, rows=2, limit=None, may_be_none=True)
        >>> check_least(1, of="Runner", port=0)
        Traceback (most recent call last):
        opencompass_ext.errors.ConfigError: Runner: port must be a whole number of at least 1, got 0
    """
    for name, value in values.items():
        if value is None and may_be_none:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            owner = f"{of}: " if of else ""
            raise ConfigError(
                f"{owner}{name} must be a whole number of at least {least}, got {value!r}"
            )
