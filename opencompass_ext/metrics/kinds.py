"""Answers of known kinds to each question: does a score like the right kind best?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def best_kinds(
    questions: Sequence[Mapping[str, float]], *, higher_is_better: bool
) -> dict[str, float]:
    """Return in how many questions each kind of answer scores best.

    Args:
        questions: Kind -> score of that answer, for each question.
        higher_is_better: Direction of the score.

    Returns:
        Kind -> count; kinds that share the best score of a question get an equal part of it.

    Example:
        >>> best_kinds([{"right": 1, "wrong": 2}, {"right": 3, "wrong": 3}], higher_is_better=False)
        {'right': 1.5, 'wrong': 0.5}
    """
    found = {kind: 0.0 for question in questions for kind in question}
    for question in questions:
        best = (max if higher_is_better else min)(question.values())
        winners = [kind for kind, score in question.items() if score == best]
        for kind in winners:
            found[kind] += 1 / len(winners)
    return found


def is_in_order(
    question: Mapping[str, float], order: Sequence[str], *, higher_is_better: bool
) -> bool:
    """Return whether the kinds score strictly worse one after the other.

    Args:
        question: Kind -> score of that answer.
        order: The kinds, the best one first.
        higher_is_better: Direction of the score.

    Example:
        >>> is_in_order({"a": 1, "b": 2, "c": 5}, ["a", "b", "c"], higher_is_better=False)
        True
        >>> is_in_order({"a": 1, "b": 1}, ["a", "b"], higher_is_better=False)
        False
    """
    sign = -1 if higher_is_better else 1
    return all(sign * question[one] < sign * question[other] for one, other in pairwise(order))
