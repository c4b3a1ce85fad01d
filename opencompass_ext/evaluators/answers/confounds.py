"""How much of a score is the length of the answer in disguise?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opencompass_ext.evaluators.answers.predictors import LENGTH, Predictor
from opencompass_ext.evaluators.answers.rows import AnswerRow
from opencompass_ext.metrics.ranks import ranks, spearman


def length_correlations(
    rows: Sequence[AnswerRow], predictors: Sequence[Predictor]
) -> list[dict[str, Any]]:
    """Return Spearman's correlation of each score with the length of the answer in characters.

    Args:
        rows: The answers.
        predictors: The scores.

    Returns:
        For each score ``spearman`` with its ``p`` over all answers, and ``within_questions``: the
        correlation of the ranks that score and length have among the answers to one question,
        which is what can mislead a comparison. That one has no p-value, since ranks of one question
        depend on one another.
    """
    found = []
    for predictor in predictors:
        if predictor.name == LENGTH:
            continue
        scored = [
            (row.question, score.value, float(row.chars))
            for row, score in zip(rows, predictor.scores, strict=True)
            if score.value is not None
        ]
        over_all = spearman([value for _, value, _ in scored], [chars for *_, chars in scored])
        groups: dict[str, list[tuple[float, float]]] = {}
        for question, value, chars in scored:
            groups.setdefault(question, []).append((value, chars))
        value_ranks: list[float] = []
        length_ranks: list[float] = []
        for group in groups.values():
            if len(group) > 1:
                value_ranks += ranks([value for value, _ in group])
                length_ranks += ranks([chars for _, chars in group])
        within = spearman(value_ranks, length_ranks)
        found.append(
            {
                "name": predictor.name,
                "n": over_all.n,
                "spearman": over_all.value,
                "p": over_all.p,
                "within_questions": within.value,
                "within_questions_n": within.n,
            }
        )
    return found
