"""THELMA: reference-free metrics of a retrieval-augmented answer, from verdicts to numbers.

Every metric takes a set apart into units, has each unit judged yes or no, and averages:

    units      chunks or facts of the sources, claims or sentences of the response, sub-questions
    verdicts   1 yes, 0 no, a probability between for a soft judge, or unreadable
    metric     the mean over ALL units that were sent to the judge

A verdict and a metric are both a ``Score``: a number in [0, 1], or none and the reason for that.
An unreadable verdict makes the metric of its row null: it never counts as 0 or 1, and never
shrinks the denominator. "Cannot tell" is no: it arrives here as 0. Higher is better throughout.

Source: THELMA, arXiv 2505.11626. What an empty set gives is not said there and is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence

from opencompass_ext.metrics.score import Score, mean_score

METRICS = (
    "source_precision_chunk",
    "source_precision_fact",
    "source_query_coverage",
    "response_precision",
    "response_query_coverage",
    "response_self_distinctness",
    "groundedness",
)
"""All seven, in the order of the paper; Source Precision is taken over two kinds of units."""


def source_precision(verdicts: Sequence[Score], *, has_sources: bool = True) -> Score:
    """Return the share of source units that the query needs (Source Precision, SP1 and SP2).

    Args:
        verdicts: Is this unit essential to answer the query? One per chunk (SP1), or one per fact,
            the facts of all sources pooled (SP2).
        has_sources: Whether any source holds text.

    Returns:
        0 to 1; low means noise in what was retrieved. Null (``no_sources``) without sources, null
        (``no_facts``) when sources yield no unit.

    References:
        arXiv 2505.11626, Source Precision.

    Example:
        >>> yes, no = Score(1.0), Score(0.0)
        >>> round(source_precision([yes, no, yes]).value, 4)
        0.6667
        >>> facts_of_one_source, facts_of_another = [yes, yes, yes], [no]
        >>> source_precision(facts_of_one_source + facts_of_another).value
        0.75
        >>> source_precision([], has_sources=False)
        Score(value=None, reason='no_sources')
    """
    return mean_score(verdicts, if_empty="no_facts") if has_sources else Score(None, "no_sources")


def response_precision(verdicts: Sequence[Score], *, has_response: bool = True) -> Score:
    """Return the share of the response's claims that the query needs (Response Precision).

    Args:
        verdicts: Is this claim essential to answer the query? One per claim.
        has_response: Whether the response holds text.

    Returns:
        0 to 1; low means padding. Null (``no_response``) without a response, null (``no_claims``)
        when it makes no claim, as a refusal does.

    References:
        arXiv 2505.11626, Response Precision.

    Example:
        >>> response_precision([Score(1.0), Score(0.0)]).value
        0.5
        >>> response_precision([]).reason
        'no_claims'
    """
    return (
        mean_score(verdicts, if_empty="no_claims") if has_response else Score(None, "no_response")
    )


def source_query_coverage(
    verdicts: Sequence[Sequence[Score]], *, has_sources: bool = True
) -> Score:
    """Return the share of the query's sub-questions that some source answers (SQC).

    Args:
        verdicts: Does this source answer this sub-question? One row per sub-question, one column
            per source; or one column when all sources were judged together.
        has_sources: Whether any source holds text.

    Returns:
        0 to 1; low means that the answer was not retrieved. 0 without sources. Null
        (``no_subquestions``) when the query yields none.

    References:
        arXiv 2505.11626, Source Query Coverage.

    Example:
        >>> yes, no = Score(1.0), Score(0.0)
        >>> round(source_query_coverage([[no, yes], [no, no], [yes, yes]]).value, 4)
        0.6667
        >>> source_query_coverage([], has_sources=False).value
        0.0
    """
    if not has_sources:
        return Score(0.0)
    return mean_score([_best(row) for row in verdicts], if_empty="no_subquestions")


def response_query_coverage(verdicts: Sequence[Score], *, has_response: bool = True) -> Score:
    """Return the share of the query's sub-questions that the response answers (RQC).

    Args:
        verdicts: Does the response answer this sub-question? One per sub-question.
        has_response: Whether the response holds text.

    Returns:
        0 to 1; low means an incomplete answer. 0 without a response. Null (``no_subquestions``)
        when the query yields none.

    References:
        arXiv 2505.11626, Response Query Coverage.

    Example:
        >>> response_query_coverage([Score(1.0), Score(0.0)]).value
        0.5
        >>> response_query_coverage([], has_response=False).value
        0.0
    """
    return mean_score(verdicts, if_empty="no_subquestions") if has_response else Score(0.0)


def groundedness(
    verdicts: Sequence[Score],
    claims: int | None = None,
    *,
    has_sources: bool = True,
    has_response: bool = True,
) -> Score:
    """Return the share of the response's claims that the sources support (Groundedness).

    What the sources say beyond the response costs nothing.

    Args:
        verdicts: Is this claim supported by the sources? One per claim; none where there are no
            sources to judge by.
        claims: How many claims the response makes; None: as many as verdicts.
        has_sources: Whether any source holds text.
        has_response: Whether the response holds text.

    Returns:
        0 to 1; low means claims made up. 0 for claims without any source. Null (``no_response``)
        without a response, null (``no_claims``) when it makes no claim.

    References:
        arXiv 2505.11626, Groundedness.

    Example:
        >>> groundedness([Score(1.0), Score(1.0), Score(0.0), Score(1.0)]).value
        0.75
        >>> groundedness([], claims=2, has_sources=False).value
        0.0
        >>> groundedness([Score(1.0), Score(None, "judge_timeout")])
        Score(value=None, reason='judge_timeout')
    """
    if not has_response:
        return Score(None, "no_response")
    count = len(verdicts) if claims is None else claims
    if count and not has_sources:
        return Score(0.0)
    return mean_score(verdicts, if_empty="no_claims")


def self_distinctness(
    similarities: Sequence[Score], sentences: int, *, literal_eq7: bool = False
) -> Score:
    """Return how little the sentences of the response repeat each other (SD).

    The mean of 1 - similarity over the n(n-1)/2 pairs of n sentences. The paper's Eq. (7) as
    printed divides by the n sentences instead: the same at n = 3, half of it at n = 2, and out of
    range above (all distinct gives 1.5 at n = 4).

    Args:
        similarities: Do the two sentences say the same? One per pair, 0 to 1.
        sentences: How many sentences the response has; 0 for no response.
        literal_eq7: Divide as printed; the result is then in [0, (n - 1) / 2].

    Returns:
        0 (all sentences say the same) to 1 (none repeats another); 1 for one sentence. Null
        (``no_response``) without any.

    Raises:
        ValueError: There is not one similarity for each pair.

    References:
        arXiv 2505.11626, Eq. (7).

    Example:
        >>> self_distinctness([Score(0.2)], sentences=2).value
        0.8
        >>> self_distinctness([Score(0.2)], sentences=2, literal_eq7=True).value
        0.4
        >>> self_distinctness([], sentences=1).value
        1.0
    """
    if sentences == 0:
        return Score(None, "no_response")
    if sentences == 1:
        return Score(1.0)
    pairs = sentences * (sentences - 1) // 2
    if len(similarities) != pairs:
        raise ValueError(
            f"{sentences} sentences make {pairs} pairs, got {len(similarities)} similarities"
        )
    mean = mean_score(similarities, if_empty="")
    if mean.value is None:
        return mean
    distinct = 1 - mean.value
    return Score(distinct * pairs / sentences if literal_eq7 else distinct)


def _best(scores: Sequence[Score]) -> Score:
    """Return the largest; null with the first reason when any score is null."""
    values = []
    for score in scores:
        if score.value is None:
            return score
        values.append(score.value)
    return Score(max(values))
