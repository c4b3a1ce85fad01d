"""G-EVAL: the rating that a model would give on average, asked for a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from opencompass_ext.metrics.parts import Part, part_mean


class Rating(NamedTuple):
    """The expected rating of a model that was asked for a number.

    Attributes:
        value: The mean of the ratings, weighted by their probability; None where there is none.
        mass: Probability of all ratings together: near 0, the model would rather have said
            something else, and the rating means little.
        reason: Why ``value`` is None.
    """

    value: float | None
    mass: float | None
    reason: str | None = None


def geval(choices: Mapping[float, Part]) -> Rating:
    """Return the expected rating, sum of k p(k) over the ratings k, divided by sum of p(k).

    Args:
        choices: Rating -> the text of that rating, read after the prompt.

    Returns:
        A value between the lowest and the highest rating, higher is better.

    References:
        Liu et al., G-Eval: NLG Evaluation using GPT-4 with Better Human Alignment (arXiv
        2303.16634), equation 1; there p(k) is estimated by sampling, here it is read off.

    Example:
        >>> shares = {1: 0.1, 2: 0.2, 3: 0.4, 4: 0.2, 5: 0.1}
        >>> rating = geval({k: Part(-math.log(p), 1) for k, p in shares.items()})
        >>> round(rating.value, 6), round(rating.mass, 6)
        (3.0, 1.0)
    """
    if not choices:
        return Rating(None, None, "no_choices")
    nlls: dict[float, float] = {}
    for rating, part in choices.items():
        mean = part_mean(part, "rating")
        if part.nll is None or mean.value is None:
            return Rating(None, None, mean.reason)
        nlls[rating] = part.nll
    # Relative to the likeliest, so that improbable ratings do not all vanish to 0.
    least = min(nlls.values())
    shares = {rating: math.exp(least - nll) for rating, nll in nlls.items()}
    total = math.fsum(shares.values())
    value = math.fsum(rating * share for rating, share in shares.items()) / total
    return Rating(value, math.exp(-least) * total)
