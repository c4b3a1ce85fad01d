"""PPLqa and its variants: the score of one answer to one question.

A language model reads the question followed by the answer, and the answer alone. Three sums of nats
come of that, from which every score in this file is arithmetic::

    | question  q      | answer  a                          h = nll / tokens
    |------------------|------------------------------      PPL(qa)  = exp of the mean over q and a
      h_q over N_q       h_(a|q) over N_a                   PPL(a|q) = exp h_(a|q)
                       | answer, read alone: h_a            PPL(a)   = exp h_a

Source: Friedland et al., PPLqa: An Unsupervised Information-Theoretic Quality Metric for Comparing
Generative Large Language Models (arXiv 2411.15320). Logarithms are natural.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from opencompass_ext.metrics.parts import Part, part_mean
from opencompass_ext.metrics.score import Score

TOO_LARGE = "too_large_for_a_float"


class Pair(NamedTuple):
    """The three parts that the scores of one (question, answer) are made of.

    Attributes:
        question: The question, read first.
        answer_after_question: The answer, read after the question.
        answer: The answer, read alone.
    """

    question: Part
    answer_after_question: Part
    answer: Part


def pplqa(pair: Pair) -> Score:
    """Return |PPL(qa) - PPL(a)|, the metric of the paper: how far the question moves the answer.

    It is not monotone: an answer that follows closely from the question has PPL(a|q) far below
    PPL(a), so a large gap, and is scored bad. ``signed_gap`` keeps the direction.

    Args:
        pair: The parts.

    Returns:
        0 upwards, lower is better.

    References:
        arXiv 2411.15320, the definition of PPLqa.

    Example:
        >>> pair = Pair(Part(3.0, 2), Part(2.0, 3), Part(4.5, 3))
        >>> round(pplqa(pair).value, 6)
        1.763407
        >>> pplqa(Pair(Part(3.0, 2), Part(2.0, 3), Part(None, 3, "non_finite_nll")))
        Score(value=None, reason='non_finite_nll')
    """
    gap = signed_gap(pair)
    return gap if gap.value is None else Score(abs(gap.value))


def signed_gap(pair: Pair) -> Score:
    """Return PPL(qa) - PPL(a): below 0, the pair is easier to read than the answer alone.

    Args:
        pair: The parts.

    Returns:
        Any number; lower is better.

    Example:
        >>> pair = Pair(Part(3.0, 2), Part(2.0, 3), Part(4.5, 3))
        >>> round(signed_gap(pair).value, 6)
        -1.763407
    """
    return _of_two(_joined(pair), part_mean(pair.answer, "answer"), lambda x, y: _exp(x) - _exp(y))


def ratio(pair: Pair) -> Score:
    """Return PPL(qa) / PPL(a), the gap without its scale.

    Args:
        pair: The parts.

    Returns:
        Above 0, lower is better.

    Example:
        >>> pair = Pair(Part(3.0, 2), Part(2.0, 3), Part(4.5, 3))
        >>> round(ratio(pair).value, 6) == round(math.e / math.exp(1.5), 6)
        True
    """
    # As one exponential it has a value even where the two perplexities are beyond floats.
    return _of_two(_joined(pair), part_mean(pair.answer, "answer"), lambda x, y: _exp(x - y))


def ppl_a_given_q(pair: Pair) -> Score:
    """Return PPL(a|q), the perplexity of the answer after the question.

    Args:
        pair: The parts.

    Returns:
        From 1 upwards, lower is better.

    Example:
        >>> pair = Pair(Part(3.0, 2), Part(2.0, 3), Part(4.5, 3))
        >>> round(ppl_a_given_q(pair).value, 6)
        1.947734
    """
    after = part_mean(pair.answer_after_question, "answer")
    return _of_two(after, after, lambda x, _: _exp(x))


def ppl_a(pair: Pair) -> Score:
    """Return PPL(a), the perplexity of the answer alone: a confound, as it ignores the question.

    Args:
        pair: The parts.

    Returns:
        From 1 upwards; lower is the more fluent text to this model.

    Example:
        >>> pair = Pair(Part(3.0, 2), Part(2.0, 3), Part(4.5, 3))
        >>> round(ppl_a(pair).value, 6)
        4.481689
    """
    alone = part_mean(pair.answer, "answer")
    return _of_two(alone, alone, lambda x, _: _exp(x))


def pmi_per_token(pair: Pair) -> Score:
    """Return h_a - h_(a|q): how much of the answer's surprise the question takes away.

    It is the pointwise mutual information of question and answer, by the length of the answer.

    Args:
        pair: The parts.

    Returns:
        Nats per token, any number, higher is better; 0 when the question changes nothing.

    Example:
        >>> pair = Pair(Part(3.0, 2), Part(2.0, 3), Part(4.5, 3))
        >>> round(pmi_per_token(pair).value, 6)
        0.833333
    """
    after, alone = part_mean(pair.answer_after_question, "answer"), part_mean(pair.answer, "answer")
    return _of_two(after, alone, lambda x, y: y - x)


def explained(pair: Pair) -> Score:
    """Return 1 - h_(a|q) / h_a, the share of the answer's surprise that the question explains.

    Both terms have to count the same tokens: a share of something else would be no share.

    Args:
        pair: The parts.

    Returns:
        At most 1, higher is better; 0 when the question explains nothing, below 0 when the answer
        is harder to read after it.

    Example:
        >>> round(explained(Pair(Part(3.0, 2), Part(2.0, 3), Part(4.5, 3))).value, 6)
        0.555556
        >>> explained(Pair(Part(3.0, 2), Part(2.0, 3), Part(4.5, 2))).reason
        'different_answer_tokens'
    """
    after, alone = part_mean(pair.answer_after_question, "answer"), part_mean(pair.answer, "answer")
    if after.value is not None and alone.value is not None:
        if pair.answer_after_question.tokens != pair.answer.tokens:
            return Score(None, "different_answer_tokens")
        if alone.value == 0:
            return Score(None, "answer_without_surprise")
    return _of_two(after, alone, lambda x, y: 1 - x / y)


class Variant(NamedTuple):
    """A score of a pair and its direction.

    Attributes:
        function: From the parts to the score.
        higher_is_better: Its direction.
    """

    function: Callable[[Pair], Score]
    higher_is_better: bool


VARIANTS: Mapping[str, Variant] = {
    "pplqa": Variant(pplqa, False),
    "signed_gap": Variant(signed_gap, False),
    "ratio": Variant(ratio, False),
    "ppl_a_given_q": Variant(ppl_a_given_q, False),
    "pmi_per_token": Variant(pmi_per_token, True),
    "explained": Variant(explained, True),
    "ppl_a": Variant(ppl_a, False),
}
"""All scores of a pair, the paper's first."""


def _joined(pair: Pair) -> Score:
    """Return nats per token of question and answer together."""
    question, answer = pair.question, pair.answer_after_question
    # One of the two alone would be the mean of something else.
    for mean in (part_mean(question, "question"), part_mean(answer, "answer")):
        if mean.value is None:
            return mean
    return part_mean(
        Part((question.nll or 0) + (answer.nll or 0), question.tokens + answer.tokens), ""
    )


def _of_two(x: Score, y: Score, function: Callable[[float, float], float]) -> Score:
    """Return the function of two scores; None where either has no value or a float ends."""
    if x.value is None or y.value is None:
        return Score(None, x.reason or y.reason)
    result = function(x.value, y.value)
    return Score(result) if math.isfinite(result) else Score(None, TOO_LARGE)


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
