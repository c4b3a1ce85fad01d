"""Does a score tell the responses that people found grounded from the others?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.errors import DataError
from opencompass_ext.evaluators.auc import auc_entries
from opencompass_ext.metrics.roc import roc_auc
from opencompass_ext.metrics.score import Score

LENGTH = "length"


def read_labels(rows: Sequence[Mapping[str, Any]], column: str) -> list[bool | None]:
    """Return what people said of each row: True for grounded, None where they said nothing.

    Raises:
        DataError: A label is neither 1 nor 0.
    """
    labels: list[bool | None] = []
    for number, row in enumerate(rows):
        label = row.get(column)
        if label is not None and (isinstance(label, float) or label not in (0, 1)):
            raise DataError(
                f"row {number}: {column!r} must be 1 (grounded), 0 (not) or null, got {label!r:.80}"
            )
        labels.append(None if label is None else bool(label))
    return labels


def labelled_results(
    labels: Sequence[bool | None],
    scores: Mapping[str, Sequence[Score]],
    chars: Sequence[int],
    units: Sequence[Any],
    *,
    seed: int,
    resamples: int,
) -> dict[str, Any] | None:
    """Return the area under the ROC curve of each score, beside that of the mere length.

    All are measured on the same rows: those with a label and a value of every score.

    Args:
        labels: See ``read_labels``.
        scores: Name -> score of each row; higher means grounded.
        chars: Length of each response. The baseline takes whichever direction fits the labels
            better, the short or the long ones as grounded, so it is never below 0.5.
        units: What is resampled for the intervals: rows of one unit are not independent.
        seed: Seed of the intervals.
        resamples: Resamples of each interval.

    Returns:
        ``n``, how many are ``grounded``, ``excluded`` by reason, and ``scores``: each with
        ``name``, ``auc``, ``auc_ci95`` and ``versus_length``. None when no row is labelled.
    """
    lost = {
        row: _why_left_out(row, scores) for row, label in enumerate(labels) if label is not None
    }
    if not lost:
        return None
    kept = [row for row, why in lost.items() if why is None]
    classes = [bool(labels[row]) for row in kept]
    own_units = [units[row] for row in kept]
    short = [-float(chars[row]) for row in kept]
    short_auc = roc_auc(classes, short)
    short_is_better = short_auc is None or short_auc >= 0.5
    length = short if short_is_better else [-value for value in short]
    options: dict[str, Any] = {"seed": seed, "resamples": resamples}
    found = []
    for name, column in scores.items():
        values = [column[row].value or 0.0 for row in kept]
        found.append({"name": name, **auc_entries(classes, values, length, own_units, **options)})
    of_length = auc_entries(classes, length, None, own_units, **options)
    direction = "shorter" if short_is_better else "longer"
    found.append({"name": LENGTH, **of_length, "direction": direction})
    return {
        "n": len(kept),
        "grounded": sum(classes),
        "excluded": dict(Counter(why for why in lost.values() if why is not None)),
        "scores": found,
    }


def _why_left_out(row: int, scores: Mapping[str, Sequence[Score]]) -> str | None:
    for name, column in scores.items():
        if column[row].value is None:
            return f"{name}: {column[row].reason}"
    return None
