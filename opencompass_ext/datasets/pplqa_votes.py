"""Preferences between two answers to one question, in either of the two shapes files have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opencompass_ext.datasets.values import shown
from opencompass_ext.errors import DataError

WINNERS = ("a", "b", "tie")
_SHAPES = {
    "preferences": '{"a": model, "b": model, "winner": "a" | "b" | "tie"}',
    "human_preference": '{"better": model, "worse": model}',
}


class Vote(NamedTuple):
    """What one judge thinks of two answers to a question.

    Attributes:
        a: The one system.
        b: The other.
        winner: ``"a"``, ``"b"`` or ``"tie"``.
        judge: Who says so, where that is known.
    """

    a: str
    b: str
    winner: str
    judge: str | None = None


def read_votes(row: Mapping[str, Any], systems: Sequence[str]) -> list[Vote]:
    """Return the preferences of a row, from ``preferences`` or from ``human_preference``.

    A pair ``{"better", "worse"}`` becomes a vote in which ``a`` is the system that stands first in
    ``systems``. Were ``a`` always the better one, all pairs would be of one class, and no statistic
    of two classes could be had.

    Args:
        row: One row of the file.
        systems: The systems that have an answer, in order.

    Raises:
        DataError: They are not in one of the two shapes, or name a system without an answer.

    Example:
        >>> read_votes({"human_preference": [{"better": "y", "worse": "x"}]}, ["x", "y"])
        [Vote(a='x', b='y', winner='b', judge=None)]
    """
    given = [name for name in _SHAPES if row.get(name) not in (None, [])]
    if len(given) == 2:
        raise DataError("the row has both 'preferences' and 'human_preference': give one of them")
    if not given:
        return []
    name = given[0]
    items = row[name]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise DataError(f"{name!r} must be a list [{_SHAPES[name]}, ...], got {shown(items)}")
    votes = []
    for number, item in enumerate(items, start=1):
        try:
            read = _read_vote if name == "preferences" else _read_better_worse
            votes.append(read(item, systems))
        except DataError as error:
            raise DataError(f"{name}, item {number}: {error}") from None
    return votes


def _read_vote(item: Mapping[str, Any], systems: Sequence[str]) -> Vote:
    a, b = _read_pair(item, ("a", "b"), systems)
    winner, judge = item.get("winner"), item.get("judge")
    if not isinstance(winner, str) or winner not in WINNERS:
        raise DataError(f"'winner' must be 'a', 'b' or 'tie', got {shown(winner)}")
    if judge is not None and not isinstance(judge, str):
        raise DataError(f"'judge' must be text, got {shown(judge)}")
    return Vote(a, b, winner, judge)


def _read_better_worse(item: Mapping[str, Any], systems: Sequence[str]) -> Vote:
    better, worse = _read_pair(item, ("better", "worse"), systems)
    if systems.index(better) < systems.index(worse):
        return Vote(better, worse, "a")
    return Vote(worse, better, "b")


def _read_pair(
    item: Mapping[str, Any], names: tuple[str, str], systems: Sequence[str]
) -> tuple[str, str]:
    pair: list[str] = []
    for name in names:
        system = item.get(name)
        if not isinstance(system, str) or system not in systems:
            raise DataError(
                f"{name!r} must be a system with an answer ({', '.join(map(repr, systems))}), got "
                f"{shown(system)}"
            )
        pair.append(system)
    if pair[0] == pair[1]:
        raise DataError(f"{names[0]!r} and {names[1]!r} are the same system, {pair[0]!r}")
    return pair[0], pair[1]
