"""PPLqa and its variants, GPTScore and G-EVAL: the score of one answer to one question.

A language model reads the question followed by the answer, and the answer alone. Three sums of nats
come of that, from which every score in this file but G-EVAL's is arithmetic::

    | question  q      | answer  a                          h = nll / tokens
    |------------------|------------------------------      PPL(qa)  = exp of the mean over q and a
      h_q over N_q       h_(a|q) over N_a                   PPL(a|q) = exp h_(a|q)
                       | answer, read alone: h_a            PPL(a)   = exp h_a

Source: Friedland et al., PPLqa: An Unsupervised Information-Theoretic Quality Metric for Comparing
Generative Large Language Models (arXiv 2411.15320); the rivals are named where they stand.
Logarithms are natural. What has no value is None with the reason in one word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

TOO_LARGE = "too_large_for_a_float"


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


class Score(NamedTuple):
    """A number, or why there is none.

    Attributes:
        value: The number; None where it has no value.
        reason: Why not; None where there is a value.
    """

    value: float | None
    reason: str | None = None


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
    return _of_two(_joined(pair), _mean(pair.answer, "answer"), lambda x, y: _exp(x) - _exp(y))


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
    return _of_two(_joined(pair), _mean(pair.answer, "answer"), lambda x, y: _exp(x - y))


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
    after = _mean(pair.answer_after_question, "answer")
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
    alone = _mean(pair.answer, "answer")
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
    after, alone = _mean(pair.answer_after_question, "answer"), _mean(pair.answer, "answer")
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
    after, alone = _mean(pair.answer_after_question, "answer"), _mean(pair.answer, "answer")
    if after.value is not None and alone.value is not None:
        if pair.answer_after_question.tokens != pair.answer.tokens:
            return Score(None, "different_answer_tokens")
        if alone.value == 0:
            return Score(None, "answer_without_surprise")
    return _of_two(after, alone, lambda x, y: 1 - x / y)


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
    mean = _mean(answer, "answer")
    return mean if mean.value is None else Score(0.0 - mean.value)


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
        mean = _mean(part, "rating")
        if part.nll is None or mean.value is None:
            return Rating(None, None, mean.reason)
        nlls[rating] = part.nll
    # Relative to the likeliest, so that improbable ratings do not all vanish to 0.
    least = min(nlls.values())
    shares = {rating: math.exp(least - nll) for rating, nll in nlls.items()}
    total = math.fsum(shares.values())
    value = math.fsum(rating * share for rating, share in shares.items()) / total
    return Rating(value, math.exp(-least) * total)


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


def _mean(part: Part, name: str) -> Score:
    """Return nats per token."""
    if part.nll is None or not math.isfinite(part.nll):
        return Score(None, part.reason or "non_finite_nll")
    if not part.tokens:
        return Score(None, f"no_{name}_token")
    return Score(part.nll / part.tokens)


def _joined(pair: Pair) -> Score:
    """Return nats per token of question and answer together."""
    question, answer = pair.question, pair.answer_after_question
    # One of the two alone would be the mean of something else.
    for mean in (_mean(question, "question"), _mean(answer, "answer")):
        if mean.value is None:
            return mean
    return _mean(Part((question.nll or 0) + (answer.nll or 0), question.tokens + answer.tokens), "")


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
