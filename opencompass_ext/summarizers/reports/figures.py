"""How numbers are written in reports: with few digits, their interval in brackets."""

from __future__ import annotations

import math
from collections.abc import Sequence

from opencompass_ext.summarizers.results import MISSING
from opencompass_ext.summarizers.table import format_number

UP, DOWN = "\N{UPWARDS ARROW}", "\N{DOWNWARDS ARROW}"


def arrow(higher_is_better: bool) -> str:
    """Return the arrow that points to the better values."""
    return UP if higher_is_better else DOWN


def share(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Return a share or correlation with three decimals, and its interval.

    Example:
        >>> share(0.6759, [0.5914, 0.77]), share(None)
        ('0.676 [0.591, 0.770]', '-')
    """
    if value is None:
        return MISSING
    ends = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    return f"{value:.3f}{ends}"


def difference(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Return a difference with its sign and three decimals, and its interval.

    Example:
        >>> difference(-0.0648, [-0.1667, 0.0432])
        '-0.065 [-0.167, +0.043]'
    """
    if value is None:
        return MISSING
    ends = "" if interval is None else f" [{interval[0]:+.3f}, {interval[1]:+.3f}]"
    return f"{value:+.3f}{ends}"


def amount(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Return a number of any size with four significant digits, and its interval.

    Example:
        >>> amount(1234.5678), amount(3.14798, [2.33734, 4.14835])
        ('1235', '3.148 [2.337, 4.148]')
    """
    if value is None:
        return MISSING
    shown = format_number(value, digits=4)
    if interval is None:
        return shown
    decimals = len(shown.partition(".")[2])
    if "e" in shown:
        return f"{shown} [{', '.join(format_number(end, digits=4) for end in interval)}]"
    return f"{shown} [{', '.join(f'{end:.{decimals}f}' for end in interval)}]"


def amount_column(
    values: Sequence[float | None], intervals: Sequence[Sequence[float] | None] | None = None
) -> list[str]:
    """Return the numbers of a column with as many decimals each, so that they can be compared.

    The number nearest to 0 gets three significant digits, as far as four decimals go.

    Example:
        >>> amount_column([8.98431, 0.58629, None], [[5.8756, 12.886], None, None])
        ['8.984 [5.876, 12.886]', '0.586', '-']
    """
    known = [abs(value) for value in values if value]
    # Beyond these ends decimals would be all zeros, or all there is.
    if known and (min(known) < 1e-3 or max(known) >= 1e9):
        return [amount(value) for value in values]
    magnitude = math.floor(math.log10(min(known))) if known else 0
    decimals = min(max(2 - magnitude, 2), 4) if known else 2
    shown = []
    for value, ends in zip(values, intervals or [None] * len(values), strict=True):
        text = MISSING if value is None else f"{value:.{decimals}f}"
        if value is not None and ends is not None:
            text += f" [{ends[0]:.{decimals}f}, {ends[1]:.{decimals}f}]"
        shown.append(text)
    return shown


def p_value(value: float | None) -> str:
    """Return a p-value with three decimals.

    Example:
        >>> p_value(0.35106), p_value(1e-9), p_value(None)
        ('0.351', '<0.001', '-')
    """
    if value is None:
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def rank(value: float | None) -> str:
    """Return a rank, without decimals unless it is shared or a mean.

    Example:
        >>> rank(2.0), rank(1.5), rank(None)
        ('2', '1.5', '-')
    """
    return MISSING if value is None else f"{value:.2f}".rstrip("0").rstrip(".")
