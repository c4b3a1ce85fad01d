"""GPTScore: which system answers best, by the mean log-probability of its answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opencompass_ext.evaluators.answers import (
    Predictor,
    answer_details,
    answer_results,
    read_part,
    read_rows,
)
from opencompass_ext.evaluators.base import BaseEvaluator
from opencompass_ext.evaluators.checks import check_resampling
from opencompass_ext.metrics.gptscore import gptscore as gptscore_of
from opencompass_ext.registry import EVALUATORS


@EVALUATORS.register_module()
class GPTScoreEvaluator(BaseEvaluator):
    """GPTScore of each answer, what it says of the systems, and how far to trust it.

    Metrics: ``gptscore`` (nats per token, the mean over all answers, higher is better), and where
    the data set has preferences, ranks or groundedness labels, how far it agrees with them; see
    ``answers.answer_results``.

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
        gptscore: Sequence[Any],
        test_set: Iterable[Mapping[str, Any]],
        id: Sequence[Any] | None = None,
        model: Sequence[Any] | None = None,
        answer_chars: Sequence[Any] | None = None,
        reason: Sequence[str | None] | None = None,
    ) -> dict[str, Any]:
        """Return metrics, systems, agreement and confounds.

        Args:
            gptscore: Likelihood of the answer after instruction and question, per row: ``{"ppl":
                nats, "token_len": tokens, ...}``.
            test_set: The rows of the data set, see ``answers.read_rows``.
            id: The question of each row.
            model: The system of each row.
            answer_chars: Length of each answer.
            reason: Why a row has no likelihood.

        Raises:
            PredictionsError: A column is not what the inferencer writes, or of other rows.
            DataError: A row of the data set is not what it has to be.
        """
        rows = read_rows(test_set, id, model, answer_chars)
        predictor = gptscore_predictor(gptscore, reason)
        results = answer_results(rows, predictor, [], seed=self.seed, resamples=self.resamples)
        return {
            **results,
            "note": "gptscore is the mean log-probability of an answer's tokens, higher is better",
            "report": "gptscore",
            "details": answer_details(rows, [predictor]),
        }


def gptscore_predictor(column: Sequence[Any], reasons: Sequence[str | None] | None) -> Predictor:
    """Return the GPTScore of each row.

    Args:
        column: Likelihood of the answer after instruction and question, per row.
        reasons: Why a row has no likelihood, per row; None when all have one.

    Raises:
        PredictionsError: An entry is not a likelihood.
    """
    scores = tuple(
        gptscore_of(read_part(value, row, "gptscore", reasons[row] if reasons else None))
        for row, value in enumerate(column)
    )
    return Predictor("gptscore", scores, higher_is_better=True)
