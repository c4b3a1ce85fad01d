"""GPTScore: how likely a model holds an answer for, after an instruction and the question."""

from __future__ import annotations

from opencompass_ext.metrics.parts import Part, part_mean
from opencompass_ext.metrics.score import Score


def gptscore(answer: Part) -> Score:
    """Return the mean log-probability of the answer's tokens after an instruction and the question.

    Args:
        answer: The answer, read after both.

    Returns:
        Nats per token, at most 0, higher is better.

    References:
        Fu et al., GPTScore: Evaluate as You Desire (arXiv 2302.04166), equation 1 with equal
        weights.

    Example:
        >>> gptscore(Part(6.0, 4)).value
        -1.5
    """
    mean = part_mean(answer, "answer")
    return mean if mean.value is None else Score(0.0 - mean.value)
