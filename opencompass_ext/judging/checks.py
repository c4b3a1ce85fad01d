"""Checks of the values a config gives to a judge."""

from __future__ import annotations

from typing import Any

from opencompass_ext.errors import ConfigError


def check_counts(*, may_be_none: bool = False, **values: Any) -> None:
    """Check that each value is a whole number of at least 1.

    Args:
        may_be_none: Whether None, for no limit, will do as well.
        **values: Name in the config -> value.

    Raises:
        ConfigError: One is not.
    """
    for name, value in values.items():
        if value is None and may_be_none:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, got {value!r}")
