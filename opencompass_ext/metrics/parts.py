"""What a model made of a part of a text."""

from __future__ import annotations

import math
from typing import NamedTuple

from opencompass_ext.metrics.score import Score


class Part(NamedTuple):
    """What a model made of one part of a text.

    Attributes:
        nll: Nats, summed over the tokens; None where the model gave no number.
        tokens: How many tokens the sum covers.
        reason: Why ``nll`` is None.
    """

    nll: float | None
    tokens: int
    reason: str | None = None


def part_mean(part: Part, name: str) -> Score:
    """Return the nats per token of a part.

    Args:
        part: The part.
        name: What it is, for the reason why there is no token.

    Returns:
        0 upwards, lower is likelier.

    Example:
        >>> part_mean(Part(3.0, 2), "answer").value
        1.5
        >>> part_mean(Part(0.0, 0), "answer").reason
        'no_answer_token'
    """
    if part.nll is None or not math.isfinite(part.nll):
        return Score(None, part.reason or "non_finite_nll")
    if not part.tokens:
        return Score(None, f"no_{name}_token")
    return Score(part.nll / part.tokens)
