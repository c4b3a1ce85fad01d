"""What a results file says of each single answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opencompass_ext.evaluators.answers.predictors import Predictor
from opencompass_ext.evaluators.answers.rows import AnswerRow


def answer_details(
    rows: Sequence[AnswerRow], predictors: Sequence[Predictor], **columns: Sequence[Any]
) -> list[dict[str, Any]]:
    """Return one record per answer: who answered what, every score, and why one is missing.

    Args:
        rows: The answers.
        predictors: The scores.
        **columns: What else is known of each answer.
    """
    details = []
    for number, row in enumerate(rows):
        scores = {predictor.name: predictor.scores[number] for predictor in predictors}
        record: dict[str, Any] = {"id": row.question, "model": row.system}
        record |= {name: score.value for name, score in scores.items()}
        record |= {name: column[number] for name, column in columns.items()}
        record["answer_chars"] = row.chars
        reasons = {name: score.reason for name, score in scores.items() if score.value is None}
        details.append({**record, "reasons": reasons} if reasons else record)
    return details
