"""Scores side by side, of which one that lacks values takes none from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from opencompass_ext.evaluators.answers.predictors import LENGTH, Predictor

Item = TypeVar("Item")


def side_by_side(
    items: Sequence[Item],
    predictors: Sequence[Predictor],
    why_missing: Callable[[Item, Predictor], str | None],
    describe: Callable[[Sequence[Item], Sequence[Predictor]], dict[str, Any]],
) -> dict[str, Any]:
    """Return what scores make of the same items, such as votes.

    The first score decides which items count: all for which it has a value. The scores that have
    one for each of them are described together, so that their figures are of exactly the same
    items. Any other is described apart, with the first score and the length of the answer, on the
    items for which it has a value too.

    Args:
        items: What is scored.
        predictors: The scores: the primary one first, and one of them the length of the answer.
        why_missing: Why a score has no value for an item; None when it has one.
        describe: From items, and scores that all have a value for them, to what is said of these.

    Returns:
        What ``describe`` gives of the scores described together, with ``excluded`` (items without a
        value of the first score, by reason) and ``partial``: for each of the other scores its
        ``score``, ``lacks`` (items without a value of it, by reason) and what ``describe`` gives.
    """
    primary = predictors[0]
    length = next(predictor for predictor in predictors if predictor.name == LENGTH)
    kept, excluded = _with_value(items, primary, why_missing)
    together, partial = [], []
    for predictor in predictors:
        both, lacks = _with_value(kept, predictor, why_missing)
        if lacks:
            of_both = describe(both, [predictor, primary, length])
            partial.append({"score": predictor.name, "lacks": lacks, **of_both})
        else:
            together.append(predictor)
    return {**describe(kept, together), "excluded": excluded, "partial": partial}


def with_value(
    items: Sequence[Item],
    predictor: Predictor,
    why_missing: Callable[[Item, Predictor], str | None],
) -> list[Item]:
    """Return the items for which a score has a value."""
    return _with_value(items, predictor, why_missing)[0]


def row_missing(row: int, predictor: Predictor) -> str | None:
    """Return why a score has no value for a row, where rows are the items."""
    return predictor.why_missing(row)


def _with_value(
    items: Sequence[Item],
    predictor: Predictor,
    why_missing: Callable[[Item, Predictor], str | None],
) -> tuple[list[Item], dict[str, int]]:
    lost = [why_missing(item, predictor) for item in items]
    kept = [item for item, why in zip(items, lost, strict=True) if why is None]
    return kept, dict(Counter(why for why in lost if why is not None))
