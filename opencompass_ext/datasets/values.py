"""Values as data files hold them: what is a number, and how an error shows one."""

from __future__ import annotations

import math
from typing import Any, TypeGuard


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a finite number; true and false, 1 and 0 to Python, are none.

    Example:
        >>> is_number(2), is_number(2.5), is_number(True), is_number("2"), is_number(10**400)
        (True, True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number with hundreds of digits
        return False


def shown(value: Any) -> str:
    """Return a value as an error message shows it.

    Example:
        >>> shown(None), shown("x")
        ('nothing', "'x'")
    """
    return "nothing" if value is None else f"{value!r:.80}"
