"""Does a score tell the answers that their sources support from the others?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from opencompass_ext.evaluators.answers.predictors import (
    LENGTH,
    Predictor,
    length_direction,
    turned,
    why_incomplete,
)
from opencompass_ext.evaluators.answers.rows import AnswerRow
from opencompass_ext.metrics.roc import roc_auc, roc_auc_difference_interval, roc_auc_interval


def groundedness(
    rows: Sequence[AnswerRow], predictors: Sequence[Predictor], *, seed: int, resamples: int
) -> dict[str, Any] | None:
    """Return the area under the ROC curve of each score, on the labelled answers.

    Args:
        rows: The answers.
        predictors: The scores; one of them is the length of the answer.
        seed: Seed of all intervals; questions are resampled.
        resamples: Resamples of each interval.

    Returns:
        ``n``, how many are ``grounded``, ``excluded`` by reason, and the ``predictors``, each with
        ``auc``, its interval and the interval of its difference from length, in the direction that
        tells more (``length_direction``). None when no answer is labelled.
    """
    labelled = [number for number, row in enumerate(rows) if row.grounded is not None]
    if not labelled:
        return None
    lost = {number: why_incomplete(number, predictors) for number in labelled}
    kept = [number for number, why in lost.items() if why is None]
    classes = [bool(rows[number].grounded) for number in kept]
    questions = [rows[number].question for number in kept]
    baseline = next(p for p in predictors if p.name == LENGTH)
    length_auc = roc_auc(classes, [baseline.goodness(number) for number in kept])
    if length_auc is not None and length_auc < 0.5:
        baseline, length_auc = turned(baseline), 1 - length_auc
    of_length = [baseline.goodness(number) for number in kept]
    found = []
    for predictor in predictors:
        own = [predictor.goodness(number) for number in kept]
        auc = roc_auc(classes, own)
        record: dict[str, Any] = {
            "name": predictor.name,
            "higher_is_better": predictor.higher_is_better,
            "auc": auc,
            "auc_ci95": roc_auc_interval(classes, own, questions, seed=seed, resamples=resamples),
        }
        if predictor.name != LENGTH and auc is not None and length_auc is not None:
            record["versus_length"] = {
                "value": auc - length_auc,
                "ci95": roc_auc_difference_interval(
                    classes, own, of_length, questions, seed=seed, resamples=resamples
                ),
            }
        found.append(record)
    return {
        "n": len(kept),
        "questions": len(set(questions)),
        "grounded": sum(classes),
        "length_direction": length_direction(baseline),
        "excluded": dict(Counter(why for why in lost.values() if why is not None)),
        "predictors": found,
    }
