"""From people's votes to comparisons of two answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from opencompass_ext.evaluators.answers.rows import AnswerRow
from opencompass_ext.metrics.pairwise import majority


class Comparison(NamedTuple):
    """Two answers to one question, of which people preferred one.

    Attributes:
        first: Row of the answer that stands first in the data set.
        second: Row of the other.
        is_first_preferred: What people preferred.
    """

    first: int
    second: int
    is_first_preferred: bool


class Comparisons(NamedTuple):
    """All comparisons, and what became of the votes.

    Attributes:
        decided: Those with a winner.
        tied: The first row of each one that ended in a tie.
        unanswered: How many name a system that has no answer to the question.
    """

    decided: tuple[Comparison, ...]
    tied: tuple[int, ...]
    unanswered: int


def by_vote(rows: Sequence[AnswerRow]) -> Comparisons:
    """Return one comparison per vote."""
    return _compare([(pair, [winner]) for pair, winner in _votes(rows)])


def by_majority(rows: Sequence[AnswerRow]) -> Comparisons:
    """Return one comparison per pair of answers, won by the answer with most of its votes.

    A tie is a vote for neither; two of the three outcomes with most votes alike are a tie.
    """
    grouped: dict[tuple[int | None, int | None, object], list[str]] = {}
    for (first, second, names), winner in _votes(rows):
        grouped.setdefault((first, second, names), []).append(winner)
    return _compare(list(grouped.items()))


_Pair = tuple[int | None, int | None, object]


def _votes(rows: Sequence[AnswerRow]) -> list[tuple[_Pair, str]]:
    """Return the pair of rows of each vote and the winner, ``"a"`` being the first row.

    Whichever answer stands first in the data set is the first: which one a vote names as ``a`` may
    depend on who won, and the votes of two judges on one pair may name them in another order.
    """
    places: dict[str, dict[str, int]] = {}
    for number, row in enumerate(rows):
        places.setdefault(row.question, {})[row.system] = number
    found: list[tuple[_Pair, str]] = []
    for question, of_question in places.items():
        for vote in rows[min(of_question.values())].votes:
            a, b = of_question.get(vote.a), of_question.get(vote.b)
            names = (question, *sorted((vote.a, vote.b)))
            if a is not None and b is not None and b < a:
                turned = {"a": "b", "b": "a", "tie": "tie"}[vote.winner]
                found.append(((b, a, names), turned))
            else:
                found.append(((a, b, names), vote.winner))
    return found


def _compare(pairs: Sequence[tuple[_Pair, list[str]]]) -> Comparisons:
    decided: list[Comparison] = []
    tied: list[int] = []
    unanswered = 0
    for (first, second, _), winners in pairs:
        winner = majority(winners)
        if first is None or second is None:
            unanswered += 1
        elif winner == "tie":
            tied.append(first)
        else:
            decided.append(Comparison(first, second, winner == "a"))
    return Comparisons(tuple(decided), tuple(tied), unanswered)
