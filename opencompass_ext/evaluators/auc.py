"""The area under the ROC curve of a score, beside that of the mere length of the texts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from opencompass_ext.metrics.roc import roc_auc, roc_auc_difference_interval, roc_auc_interval


def auc_entries(
    is_positive: Sequence[bool],
    scores: Sequence[float],
    of_length: Sequence[float] | None,
    units: Sequence[Hashable],
    *,
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    """Return ``auc`` and ``auc_ci95`` of a score, and ``versus_length`` where both have an area.

    Args:
        is_positive: The class of each row.
        scores: The score of each row; higher should mean positive.
        of_length: Length of each row, turned to the direction that tells more; None for the length
            itself, which is not set against itself.
        units: What is resampled, for each row.
        seed: Seed of the intervals.
        resamples: Resamples of each interval.

    Example:
        >>> classes, scores = [True, False] * 9, [0.9, 0.1, 0.3, 0.4, 0.8, 0.7] * 3
        >>> found = auc_entries(classes, scores, scores, range(18), seed=0, resamples=50)
        >>> round(found["auc"], 4), found["versus_length"]
        (0.7778, {'value': 0.0, 'ci95': (0.0, 0.0)})
    """
    options = {"seed": seed, "resamples": resamples}
    auc = roc_auc(is_positive, scores)
    entries: dict[str, Any] = {
        "auc": auc,
        "auc_ci95": roc_auc_interval(is_positive, scores, units, **options),
    }
    length_auc = None if of_length is None else roc_auc(is_positive, of_length)
    if of_length is not None and auc is not None and length_auc is not None:
        entries["versus_length"] = {
            "value": auc - length_auc,
            "ci95": roc_auc_difference_interval(is_positive, scores, of_length, units, **options),
        }
    return entries
