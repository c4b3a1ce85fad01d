r"""Source support: how much of a response's surprise its sources explain. No judge is asked.

A language model reads the response twice: after the sources, and without them. Both readings count
exactly the same tokens::

    | sources | lead-in | response r          c_t = nats of token t here, h_(r|s) their mean
              | lead-in | response r          u_t = nats of token t here, h_r     their mean

    source_support = 1 - h_(r|s) / h_r                          of the surprise, how much is gone
    token_support  = mean over t of clip(1 - c_t / u_t, 0, 1)   the same of each token, averaged

Both are 0 where the sources explain nothing and 1 where they explain all. What they measure is
support, not truth: a sentence copied from a wrong source is explained by it, and so is all of a
negated copy but the word that negates.

The same idea, for questions and answers, is ``pplqa.explained``. Logarithms are natural.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from opencompass_ext.metrics.parts import Part, part_mean
from opencompass_ext.metrics.score import Score, mean_score


class Readings(NamedTuple):
    """The tokens of a response, or of a part of it, read twice.

    Attributes:
        after_sources: Read after the sources.
        alone: Read without them.
    """

    after_sources: Part
    alone: Part


def source_support(readings: Readings) -> Score:
    """Return the share of the surprise that the sources explain, 1 - h_(r|s) / h_r.

    Long, rare words weigh more than short, usual ones: each token weighs what it costs alone.

    Args:
        readings: The two readings.

    Returns:
        At most 1, higher is better grounded; 0 when the sources explain nothing, below 0 when the
        response is harder to read after them. Null (``no_response_token``) without a token, null
        (``response_without_surprise``) when it costs nothing without the sources either.

    Raises:
        ValueError: The readings count different numbers of tokens.

    Example:
        >>> source_support(Readings(Part(1.0, 4), Part(8.0, 4))).value
        0.875
        >>> source_support(Readings(Part(0.0, 4), Part(0.0, 4)))
        Score(value=None, reason='response_without_surprise')
    """
    after, alone = _means(readings)
    if after.value is None or alone.value is None:
        return Score(None, after.reason or alone.reason)
    if alone.value == 0:
        return Score(None, "response_without_surprise")
    return Score(1 - after.value / alone.value)


def pmi_per_token(readings: Readings) -> Score:
    """Return h_r - h_(r|s), the nats per token that the sources save.

    Args:
        readings: The two readings.

    Returns:
        Any number, higher is better grounded; it grows with how surprising the response is, so it
        compares responses to one question rather than to different ones. Null as
        ``source_support``, but 0 where there is no surprise to explain.

    Raises:
        ValueError: The readings count different numbers of tokens.

    Example:
        >>> pmi_per_token(Readings(Part(1.0, 4), Part(8.0, 4))).value
        1.75
    """
    after, alone = _means(readings)
    if after.value is None or alone.value is None:
        return Score(None, after.reason or alone.reason)
    return Score(alone.value - after.value)


def nll_after_sources(readings: Readings) -> Score:
    """Return h_(r|s), the mean NLL after the sources.

    Args:
        readings: The two readings.

    Returns:
        Nats per token, 0 upwards, lower is better grounded; null as ``source_support``. Text that
        is easy to read anyway is low too.

    Example:
        >>> nll_after_sources(Readings(Part(1.0, 4), Part(8.0, 4))).value
        0.25
    """
    return part_mean(readings.after_sources, "response")


def token_supports(after: Sequence[float | None], alone: Sequence[float | None]) -> list[Score]:
    """Return how much of each token's surprise the sources explain, 1 - c/u, cut to [0, 1].

    Cut, since a single token that the sources make unlikely could outweigh all others.

    Args:
        after: Nats of each token after the sources; None where the model gave no number.
        alone: Nats of each token without them.

    Returns:
        One score per token, 0 to 1; 0 for a token that costs nothing without the sources either:
        they explain nothing of it. Null (``non_finite_nll``) where a number is missing.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> [score.value for score in token_supports([0.5, 3.0, 0.0], [2.0, 2.0, 0.0])]
        [0.75, 0.0, 0.0]
    """
    return [_token_support(c, u) for c, u in zip(after, alone, strict=True)]


def token_support(after: Sequence[float | None], alone: Sequence[float | None]) -> Score:
    """Return the mean of ``token_supports``: every token weighs the same.

    Args:
        after: Nats of each token after the sources; None where the model gave no number.
        alone: Nats of each token without them.

    Returns:
        0 to 1, higher is better grounded. Null (``no_response_token``) without a token, null
        (``non_finite_nll``) where the model gave no number for one.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> token_support([0.5, 3.0], [2.0, 2.0]).value
        0.375
    """
    return mean_score(token_supports(after, alone), if_empty="no_response_token")


def weakest(parts: Sequence[Score]) -> Score:
    """Return the lowest score of the parts of a response, such as its sentences.

    Args:
        parts: One score per part. Parts without a token have none of their own and are left out.

    Returns:
        The lowest; null with the first reason when a part that has tokens has no score, null
        (``no_response_token``) when there is no part with one.

    Example:
        >>> weakest([Score(0.9), Score(0.2), Score(None, "no_response_token")]).value
        0.2
    """
    values = []
    for score in parts:
        if score.value is not None:
            values.append(score.value)
        elif score.reason != "no_response_token":
            return score
    return Score(min(values)) if values else Score(None, "no_response_token")


def _means(readings: Readings) -> tuple[Score, Score]:
    if readings.after_sources.tokens != readings.alone.tokens:
        raise ValueError(
            f"the readings count {readings.after_sources.tokens} and {readings.alone.tokens} "
            "tokens: they must count the same ones"
        )
    return part_mean(readings.after_sources, "response"), part_mean(readings.alone, "response")


def _token_support(after: float | None, alone: float | None) -> Score:
    if after is None or alone is None or not math.isfinite(after) or not math.isfinite(alone):
        return Score(None, "non_finite_nll")
    return Score(min(max(1 - after / alone, 0.0), 1.0) if alone > 0 else 0.0)
