"""A score of every answer, as a predictor of what people think of the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from opencompass_ext.evaluators.answers.rows import AnswerRow
from opencompass_ext.metrics.score import Score

LENGTH = "answer_chars"
"""The predictor that holds the longer answer for the better one."""

NO_REASON = "no_reason"


@dataclass(frozen=True, slots=True)
class Predictor:
    """One score per answer.

    Attributes:
        name: Its key in the results.
        scores: One per row.
        higher_is_better: Its direction.
    """

    name: str
    scores: tuple[Score, ...]
    higher_is_better: bool

    def goodness(self, row: int) -> float:
        """Return the score of a row, turned so that higher is better."""
        value = self.scores[row].value
        assert value is not None, "rows without a value are left out before"
        return value if self.higher_is_better else -value

    def why_missing(self, *rows: int) -> str | None:
        """Return why the first of some rows without a value has none; None when all have one."""
        missing = (self.scores[row] for row in rows if self.scores[row].value is None)
        return next((score.reason or NO_REASON for score in missing), None)

    def null_reasons(self, rows: Iterable[int] | None = None) -> dict[str, int]:
        """Return how many rows have no value, by reason."""
        chosen = self.scores if rows is None else [self.scores[row] for row in rows]
        return dict(Counter(s.reason or NO_REASON for s in chosen if s.value is None))


def length_predictor(rows: Sequence[AnswerRow]) -> Predictor:
    """Return the baseline that any other predictor has to beat: the longer, the better."""
    return Predictor(LENGTH, tuple(Score(float(row.chars)) for row in rows), higher_is_better=True)


def turned(predictor: Predictor) -> Predictor:
    """Return a predictor that likes best what the given one likes least."""
    return replace(predictor, higher_is_better=not predictor.higher_is_better)


def length_direction(baseline: Predictor) -> str:
    """Return which answer the length baseline likes: the ``"longer"`` or the ``"shorter"``."""
    return "longer" if baseline.higher_is_better else "shorter"


def usable(predictors: Sequence[Predictor]) -> list[Predictor]:
    """Return the predictors that have a value for any row."""
    return [p for p in predictors if any(score.value is not None for score in p.scores)]
