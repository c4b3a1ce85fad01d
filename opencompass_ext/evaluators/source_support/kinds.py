"""Of responses to the same sources, does a kind that is grounded score above one that is not?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.errors import DataError
from opencompass_ext.metrics.better_worse import pair_agreement
from opencompass_ext.metrics.score import Score, set_score


def kind_results(
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[bool | None],
    scores: Mapping[str, Sequence[Score]],
) -> dict[str, Any] | None:
    """Return the mean of each kind, and how often each grounded kind beats each other kind.

    Args:
        rows: Of the data set: ``kind``, what kind of response it is, and ``group``, which rows
            respond to the same sources. A group has at most one row of a kind.
        labels: Whether each is grounded.
        scores: Name -> score of each row.

    Returns:
        ``means``: per kind, with ``grounded`` and the mean of each score; ``pairs``: per grounded
        and ungrounded kind, for each score, in how many groups the grounded one is higher. None
        when no row has a kind and a group.

    Raises:
        DataError: A kind or a group is neither text nor a whole number.
    """
    kinds: dict[str, dict[Any, int]] = {}
    for number, row in enumerate(rows):
        for column in ("kind", "group"):
            if not isinstance(row.get(column), (str, int, type(None))):
                raise DataError(
                    f"row {number}: {column!r} must be text or a whole number, got "
                    f"{row[column]!r:.80}"
                )
        if row.get("kind") is not None and row.get("group") is not None:
            kinds.setdefault(str(row["kind"]), {})[row["group"]] = number
    if not kinds:
        return None
    grounded = {kind: labels[next(iter(of.values()))] for kind, of in kinds.items()}
    return {
        "means": [
            {
                "kind": kind,
                "grounded": grounded[kind],
                "n": len(of),
                **{
                    name: set_score([column[i] for i in of.values()]).mean
                    for name, column in scores.items()
                },
            }
            for kind, of in kinds.items()
        ],
        "pairs": [
            {
                "grounded": good,
                "not_grounded": bad,
                **{
                    name: _agreement(column, kinds[good], kinds[bad])
                    for name, column in scores.items()
                },
            }
            for bad in kinds
            if grounded[bad] is False
            for good in kinds
            if grounded[good]
        ],
    }


def _agreement(
    column: Sequence[Score], good: Mapping[Any, int], bad: Mapping[Any, int]
) -> dict[str, Any]:
    groups = [group for group in good if group in bad]
    seen = pair_agreement(
        [column[good[group]].value for group in groups],
        [column[bad[group]].value for group in groups],
    )
    return {
        "wins": seen.wins,
        "ties": seen.ties,
        "losses": seen.losses,
        "unscored": seen.unscored,
        "rate": seen.strict_rate,
        "rate_ci95": seen.strict_rate_ci95,
    }
