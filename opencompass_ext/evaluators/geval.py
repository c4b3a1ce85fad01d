"""G-EVAL: which system answers best, by the rating that a model gives its answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opencompass_ext.errors import PredictionsError
from opencompass_ext.evaluators.answers import (
    Predictor,
    answer_details,
    answer_results,
    read_part,
    read_reason,
    read_rows,
)
from opencompass_ext.evaluators.base import BaseEvaluator
from opencompass_ext.evaluators.checks import check_resampling
from opencompass_ext.metrics.geval import Rating
from opencompass_ext.metrics.geval import geval as geval_of
from opencompass_ext.metrics.mean import mean_of
from opencompass_ext.metrics.score import Score
from opencompass_ext.registry import EVALUATORS


@EVALUATORS.register_module()
class GEvalEvaluator(BaseEvaluator):
    """G-EVAL's rating of each answer, what it says of the systems, and how far to trust it.

    Metrics: ``geval`` (the mean rating, higher is better), ``geval_mass`` (the mean probability
    that the model gave to all ratings together: near 0 it would rather have said something else),
    and where the data set has preferences, ranks or groundedness labels, how far ``geval`` agrees
    with them; see ``answers.answer_results``.

    Args:
        seed: Seed of all intervals.
        resamples: Resamples of each interval.

    Raises:
        ConfigError: ``seed`` or ``resamples`` is no number that can be.
    """

    def __init__(self, seed: int = 0, resamples: int = 1000) -> None:
        check_resampling(seed, resamples)
        self.seed = seed
        self.resamples = resamples

    def score(
        self,
        geval: Sequence[Any],
        test_set: Iterable[Mapping[str, Any]],
        id: Sequence[Any] | None = None,
        model: Sequence[Any] | None = None,
        answer_chars: Sequence[Any] | None = None,
        reason: Sequence[str | None] | None = None,
    ) -> dict[str, Any]:
        """Return metrics, systems, agreement and confounds.

        Args:
            geval: Rating -> likelihood of its text after the prompt, per row: ``{"1": {"ppl": nats,
                "token_len": tokens, ...}, "2": ...}``.
            test_set: The rows of the data set, see ``answers.read_rows``.
            id: The question of each row.
            model: The system of each row.
            answer_chars: Length of each answer.
            reason: Why a row has no likelihoods.

        Raises:
            PredictionsError: A column is not what the inferencer writes, or of other rows.
            DataError: A row of the data set is not what it has to be.
        """
        rows = read_rows(test_set, id, model, answer_chars)
        ratings = read_ratings(geval, reason)
        predictor = geval_predictor(ratings)
        results = answer_results(rows, predictor, [], seed=self.seed, resamples=self.resamples)
        if results["geval"] is None:
            results["reasons"]["geval_mass"] = results["reasons"]["geval"]
        results["analysis"]["statement"] += mass_statement(ratings)
        return {
            "geval": results.pop("geval"),
            "geval_mass": mean_mass(ratings),
            **results,
            "note": (
                "geval is the expected rating; geval_mass is the probability of all ratings "
                "together, and near 0 the rating means little"
            ),
            "report": "geval",
            "details": answer_details(rows, [predictor], geval_mass=[r.mass for r in ratings]),
        }


def read_ratings(column: Sequence[Any], reasons: Sequence[str | None] | None) -> list[Rating]:
    """Return the expected rating of each row and the probability behind it.

    Args:
        column: Rating -> likelihood of its text, per row.
        reasons: Why a row has no likelihoods, per row; None when all have them.

    Raises:
        PredictionsError: An entry is something else, a rating no number, or a reason no text.
    """
    found = []
    for row, choices in enumerate(column):
        reason = read_reason(reasons[row] if reasons else None, row)
        if choices is None or reason is not None:
            found.append(Rating(None, None, reason or "not_scored"))
            continue
        if not isinstance(choices, Mapping):
            raise PredictionsError(
                f"row {row}: 'geval' must hold a likelihood for each rating, got {choices!r:.80}; "
                "run the inference again (-r)"
            )
        parts = {
            _rating(rating, row): read_part(value, row, f"geval {rating}")
            for rating, value in choices.items()
        }
        found.append(geval_of(parts))
    return found


def geval_predictor(ratings: Sequence[Rating]) -> Predictor:
    """Return the ratings as a score of each row."""
    scores = tuple(Score(rating.value, rating.reason) for rating in ratings)
    return Predictor("geval", scores, higher_is_better=True)


def mean_mass(ratings: Sequence[Rating]) -> float | None:
    """Return the mean probability that the ratings have together; None without a rating."""
    return mean_of([rating.mass for rating in ratings if rating.mass is not None])


def mass_statement(ratings: Sequence[Rating]) -> list[str]:
    """Return how much of its probability the model gave to the ratings, in a sentence."""
    mass = mean_mass(ratings)
    if mass is None:
        return []
    return [
        f"G-EVAL: all ratings together have a mean probability of {mass:.3g}; the nearer to 0, the "
        "less the expected rating means."
    ]


def _rating(text: str, row: int) -> float:
    try:
        rating = float(text)
    except ValueError:
        rating = math.nan
    if not math.isfinite(rating):
        raise PredictionsError(
            f"row {row}: 'geval' must have numbers as keys, such as '1' to '5', got {text!r:.80}"
        )
    return rating
