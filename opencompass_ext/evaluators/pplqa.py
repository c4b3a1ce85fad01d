"""PPLqa: which system answers best, by how likely a language model holds its answers for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.evaluators.answers import (
    Predictor,
    answer_details,
    answer_results,
    read_part,
    read_rows,
)
from opencompass_ext.evaluators.base import BaseEvaluator
from opencompass_ext.evaluators.checks import check_embedding_model, check_resampling
from opencompass_ext.evaluators.cosines import nearest_cosines
from opencompass_ext.evaluators.geval import geval_predictor, mass_statement, read_ratings
from opencompass_ext.evaluators.gptscore import gptscore_predictor
from opencompass_ext.metrics.pplqa import VARIANTS, Pair
from opencompass_ext.registry import EVALUATORS

NOTE = (
    "pplqa is |PPL(question and answer) - PPL(answer)|, mean over all answers; accuracy, mcc and "
    "f1 are its agreement with people's votes; longer_wins is the accuracy of preferring the "
    "longer answer"
)


@EVALUATORS.register_module()
class PPLqaEvaluator(BaseEvaluator):
    """PPLqa and its variants of each answer, what they say of the systems, and how far to trust it.

    Metrics: ``pplqa`` (the mean over all answers, lower is better), and where the data set has
    preferences, ranks or groundedness labels, how far ``pplqa`` agrees with them; see
    ``answers.answer_results``. Beside it on the same answers: each variant, GPTScore and G-EVAL
    where the predictions hold them, and "the longer answer wins". ``statement`` says in plain words
    whether ``pplqa`` beats that.

    Args:
        embedding_model: Config of a model whose cosine of answer and sources is to stand beside the
            scores of answers labelled ``grounded`` or not: ``path`` and the other arguments of
            ``SentenceEmbedder``. With several sources the nearest one counts.
        seed: Seed of all intervals.
        resamples: Resamples of each interval.

    Raises:
        ConfigError: An option has a value it cannot have.
    """

    def __init__(
        self,
        embedding_model: Mapping[str, Any] | None = None,
        seed: int = 0,
        resamples: int = 1000,
    ) -> None:
        check_embedding_model(embedding_model)
        check_resampling(seed, resamples)
        self.embedding_model = embedding_model
        self.seed = seed
        self.resamples = resamples

    def score(
        self,
        q: Sequence[Any],
        a_given_q: Sequence[Any],
        a: Sequence[Any],
        test_set: Sequence[Mapping[str, Any]],
        id: Sequence[Any] | None = None,
        model: Sequence[Any] | None = None,
        answer_chars: Sequence[Any] | None = None,
        gptscore: Sequence[Any] | None = None,
        geval: Sequence[Any] | None = None,
        reason: Sequence[str | None] | None = None,
    ) -> dict[str, Any]:
        """Return metrics, systems, agreement and confounds.

        Args:
            q: Likelihood of the question, per row: ``{"ppl": nats, "token_len": tokens, ...}``.
            a_given_q: Likelihood of the answer after the question.
            a: Likelihood of the answer alone.
            test_set: The rows of the data set, see ``answers.read_rows``.
            id: The question of each row.
            model: The system of each row.
            answer_chars: Length of each answer.
            gptscore: Likelihood of the answer after an instruction, where it was asked for.
            geval: Rating -> likelihood of its text, where it was asked for.
            reason: Why a row has no likelihoods.

        Raises:
            PredictionsError: A column is not what the inferencer writes, or of other rows.
            DataError: A row of the data set is not what it has to be.
            ConfigError: ``embedding_model`` is not what it has to be.
        """
        rows = read_rows(test_set, id, model, answer_chars)
        scores, more = answer_scores(q, a_given_q, a, gptscore, geval, reason)
        results = answer_results(
            rows,
            scores[0],
            scores[1:],
            of_sources=self._cosine(test_set),
            seed=self.seed,
            resamples=self.resamples,
        )
        if geval is not None:
            results["analysis"]["statement"] += mass_statement(read_ratings(geval, reason))
        return {
            **results,
            "note": NOTE,
            "report": "pplqa",
            "details": answer_details(rows, scores, **more),
        }

    def _cosine(self, test_set: Sequence[Mapping[str, Any]]) -> list[Predictor]:
        """Return the cosine of each labelled answer and its sources, if it is asked for."""
        if self.embedding_model is None:
            return []
        labelled = [row if row.get("grounded") is not None else {} for row in test_set]
        scores = nearest_cosines(
            [row.get("answer") or "" for row in labelled],
            [row.get("sources") or () for row in labelled],
            self.embedding_model,
        )
        return [Predictor("cosine", tuple(scores), higher_is_better=True)]


def answer_scores(
    q: Sequence[Any],
    a_given_q: Sequence[Any],
    a: Sequence[Any],
    gptscore: Sequence[Any] | None,
    geval: Sequence[Any] | None,
    reason: Sequence[str | None] | None,
) -> tuple[list[Predictor], dict[str, Sequence[Any]]]:
    """Return every score that the predictions allow, ``pplqa`` first, and what else they tell.

    Args:
        q: See ``PPLqaEvaluator.score``, as for the others.
        a_given_q: As above.
        a: As above.
        gptscore: As above.
        geval: As above.
        reason: As above.

    Raises:
        PredictionsError: A column is not what the inferencer writes.
    """
    pairs = _read_pairs(q, a_given_q, a, reason)
    scores = [
        Predictor(name, tuple(map(variant.function, pairs)), variant.higher_is_better)
        for name, variant in VARIANTS.items()
    ]
    more: dict[str, Sequence[Any]] = {
        "question_tokens": [pair.question.tokens for pair in pairs],
        "answer_tokens": [pair.answer_after_question.tokens for pair in pairs],
    }
    if gptscore is not None:
        scores.append(gptscore_predictor(gptscore, reason))
    if geval is not None:
        ratings = read_ratings(geval, reason)
        scores.append(geval_predictor(ratings))
        more["geval_mass"] = [rating.mass for rating in ratings]
    return scores, more


def _read_pairs(
    q: Sequence[Any],
    a_given_q: Sequence[Any],
    a: Sequence[Any],
    reasons: Sequence[str | None] | None,
) -> list[Pair]:
    pairs = []
    for row, parts in enumerate(zip(q, a_given_q, a, strict=True)):
        reason = reasons[row] if reasons else None
        names = ("q", "a_given_q", "a")
        read = [read_part(part, row, name, reason) for part, name in zip(parts, names, strict=True)]
        pairs.append(Pair(*read))
    return pairs
