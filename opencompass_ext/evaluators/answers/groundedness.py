"""Does a score tell the answers that their sources support from the others?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opencompass_ext.evaluators.answers.predictors import (
    LENGTH,
    Predictor,
    length_direction,
    turned,
)
from opencompass_ext.evaluators.answers.rows import AnswerRow
from opencompass_ext.evaluators.answers.side_by_side import row_missing, side_by_side, with_value
from opencompass_ext.evaluators.auc import auc_entries
from opencompass_ext.metrics.roc import roc_auc


def groundedness(
    rows: Sequence[AnswerRow], predictors: Sequence[Predictor], *, seed: int, resamples: int
) -> dict[str, Any] | None:
    """Return the area under the ROC curve of each score, on the labelled answers.

    Args:
        rows: The answers.
        predictors: The scores, the primary one first; one of them is the length of the answer.
        seed: Seed of all intervals; questions are resampled.
        resamples: Resamples of each interval.

    Returns:
        ``n``, how many are ``grounded``, and the ``predictors``, each with ``auc``, its interval
        and the interval of its difference from length, in the direction that tells more
        (``length_direction``); for ``excluded`` and ``partial`` see ``side_by_side``. None when no
        answer is labelled.
    """
    labelled = [number for number, row in enumerate(rows) if row.grounded is not None]
    if not labelled:
        return None
    of_primary = with_value(labelled, predictors[0], row_missing)
    baseline = next(p for p in predictors if p.name == LENGTH)
    length_auc = roc_auc(
        [bool(rows[number].grounded) for number in of_primary],
        [baseline.goodness(number) for number in of_primary],
    )
    if length_auc is not None and length_auc < 0.5:
        baseline = turned(baseline)

    def described(kept: Sequence[int], shown: Sequence[Predictor]) -> dict[str, Any]:
        classes = [bool(rows[number].grounded) for number in kept]
        return {
            "n": len(kept),
            "questions": len({rows[number].question for number in kept}),
            "grounded": sum(classes),
            "predictors": [
                _record(predictor, baseline, kept, rows, seed, resamples) for predictor in shown
            ],
        }

    return {
        "length_direction": length_direction(baseline),
        **side_by_side(labelled, predictors, row_missing, described),
    }


def _record(
    predictor: Predictor,
    baseline: Predictor,
    kept: Sequence[int],
    rows: Sequence[AnswerRow],
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    classes = [bool(rows[number].grounded) for number in kept]
    questions = [rows[number].question for number in kept]
    of_length = [baseline.goodness(number) for number in kept]
    return {
        "name": predictor.name,
        "higher_is_better": predictor.higher_is_better,
        **auc_entries(
            classes,
            [predictor.goodness(number) for number in kept],
            None if predictor.name == LENGTH else of_length,
            questions,
            seed=seed,
            resamples=resamples,
        ),
    }
