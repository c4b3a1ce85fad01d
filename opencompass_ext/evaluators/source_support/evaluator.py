"""Source support: how far each response rests on its sources, by likelihood alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.datasets.rag_rows import response_key, sources_of
from opencompass_ext.errors import DataError, PredictionsError
from opencompass_ext.evaluators.base import BaseEvaluator
from opencompass_ext.evaluators.checks import check_embedding_model, check_resampling
from opencompass_ext.evaluators.cosines import nearest_cosines
from opencompass_ext.evaluators.means import mean_entries
from opencompass_ext.evaluators.source_support.kinds import kind_results
from opencompass_ext.evaluators.source_support.labelled import labelled_results, read_labels
from opencompass_ext.evaluators.source_support.rows import SupportedResponse, read_response
from opencompass_ext.metrics.score import Score
from opencompass_ext.registry import EVALUATORS

MEANS = ("source_support", "token_support", "weakest_sentence")
"""Scores whose mean over rows is a metric of the table."""

RIVALS = ("pmi_per_token", "nll_after_sources")
COSINE = "cosine"
NOTE = (
    "source_support and token_support say how far the sources explain the response: support, not "
    "truth"
)


@EVALUATORS.register_module()
class SourceSupportEvaluator(BaseEvaluator):
    """How much of each response its sources explain, and how well that tells what people found.

    Metrics, all higher is better: the means over rows of ``source_support``, of ``token_support``
    and of the ``token_support`` of each response's ``weakest_sentence``, with bootstrap intervals;
    see ``metrics.source_support``. Where the data set says what people found, ``auc``: how well
    ``source_support`` tells grounded responses from others, and under ``labelled`` the same for
    every score, for the length of the response and, with an ``embedding_model``, for the cosine
    of response and sources. Where its rows have a ``kind`` and a ``group``, ``kinds`` compares the
    kinds of responses to the same sources.

    A row without a score has a reason and enters no mean.

    Args:
        label_column: Column that is 1 for a response that people found grounded, else 0.
        unit_column: Column that names what is resampled for intervals, such as the answer that
            several claims belong to; None resamples rows.
        embedding_model: Config of the model for the cosine: ``path`` and the other arguments of
            ``SentenceEmbedder``. With several sources the nearest one counts.
        seed: Seed of all intervals.
        resamples: Resamples of each interval.

    Raises:
        ConfigError: An option has a value it cannot have.
    """

    def __init__(
        self,
        label_column: str = "grounded",
        unit_column: str | None = None,
        embedding_model: Mapping[str, Any] | None = None,
        seed: int = 0,
        resamples: int = 1000,
    ) -> None:
        check_embedding_model(embedding_model)
        check_resampling(seed, resamples)
        self.label_column = label_column
        self.unit_column = unit_column
        self.embedding_model = embedding_model
        self.seed = seed
        self.resamples = resamples

    def score(
        self,
        after_sources: Sequence[Any],
        alone: Sequence[Any],
        test_set: Sequence[Mapping[str, Any]],
        id: Sequence[Any] | None = None,
        response: Sequence[Any] | None = None,
        sentences: Sequence[Any] | None = None,
        tokens: Sequence[Any] | None = None,
        reason: Sequence[str | None] | None = None,
    ) -> dict[str, Any]:
        """Return metrics, intervals, agreement with labels, and details of one data set.

        Args:
            after_sources: Likelihood of each response after its sources.
            alone: Likelihood of each response without them.
            test_set: The rows of the data set, for labels and, with an embedding model, sources.
            id: Of each row.
            response: The text of each response.
            sentences: Both readings of each sentence, per row.
            tokens: Both readings of each token, per row.
            reason: Why a row has no likelihoods.

        Raises:
            PredictionsError: The predictions are not what the inferencer writes.
            DataError: A label is neither 1 nor 0, or the unit column is not there.
        """
        columns = {
            "after_sources": after_sources,
            "alone": alone,
            "id": id,
            "response": response,
            "sentences": sentences,
            "tokens": tokens,
            "reason": reason,
        }
        given = {name: column for name, column in columns.items() if column is not None}
        data = [dict(row) for row in test_set]
        rows = [
            read_response(number, {name: column[number] for name, column in given.items()})
            for number in range(len(after_sources))
        ]
        _check_ids(rows, data)
        units = self._units(data)
        scores = {name: [row.scores[name] for row in rows] for name in (*MEANS, *RIVALS)}
        means = mean_entries(
            {name: scores[name] for name in MEANS},
            units,
            seed=self.seed,
            resamples=self.resamples,
        )
        agreement = self._agreement(rows, data, scores, units)
        return {
            **means,
            **agreement,
            "reasons": {**means["reasons"], **_reasons_of_auc(agreement, means["reasons"])},
            "note": NOTE,
            "counts": {
                "rows": len(rows),
                "scored_rows": means["coverage"]["source_support"]["n_scored"],
                "windowed_rows": sum(row.is_windowed for row in rows),
                "sentences": sum(len(row.sentences) for row in rows),
                "response_tokens": sum(row.readings.alone.tokens for row in rows),
                "null_rows": means["coverage"]["source_support"]["null_rows"],
            },
            "report": "source_support",
            "details": [
                _detail(row, label)
                for row, label in zip(rows, read_labels(data, self.label_column), strict=True)
            ],
        }

    def _agreement(
        self,
        rows: Sequence[SupportedResponse],
        data: Sequence[Mapping[str, Any]],
        scores: Mapping[str, Sequence[Score]],
        units: Sequence[Any],
    ) -> dict[str, Any]:
        labels = read_labels(data, self.label_column)
        predictors = {
            name: column
            for name, column in scores.items()
            if any(score.value is not None for score in column)
        }
        if "nll_after_sources" in predictors:
            column = predictors.pop("nll_after_sources")
            predictors["minus_nll_after_sources"] = [_negated(score) for score in column]
        if self.embedding_model is not None:
            predictors[COSINE] = self._cosines(rows, data)
        found: dict[str, Any] = {}
        labelled = labelled_results(
            labels,
            predictors,
            [len(row.text) for row in rows],
            units,
            seed=self.seed,
            resamples=self.resamples,
        )
        if labelled is not None:
            of = {record["name"]: record for record in labelled["scores"]}
            own = of.get("source_support", {})
            found = {"auc": own.get("auc"), "auc_ci95": own.get("auc_ci95"), "labelled": labelled}
        kinds = kind_results(
            data, labels, {n: scores[n] for n in ("source_support", "token_support")}
        )
        return found if kinds is None else {**found, "kinds": kinds}

    def _units(self, data: Sequence[Mapping[str, Any]]) -> list[Any]:
        if self.unit_column is None:
            return list(range(len(data)))
        for number, row in enumerate(data):
            if row.get(self.unit_column) is None:
                raise DataError(
                    f"row {number} has no {self.unit_column!r}, the unit_column of the evaluator "
                    f"(columns: {', '.join(map(str, row))})"
                )
        return [row[self.unit_column] for row in data]

    def _cosines(
        self, rows: Sequence[SupportedResponse], data: Sequence[Mapping[str, Any]]
    ) -> list[Score]:
        return nearest_cosines(
            [row.text or "" for row in rows],
            [[source["text"] for source in sources_of(row) or ()] for row in data],
            self.embedding_model or {},
        )


def _check_ids(rows: Sequence[SupportedResponse], data: Sequence[Mapping[str, Any]]) -> None:
    for number, (row, of_data) in enumerate(zip(rows, data, strict=True)):
        name = of_data.get("id")
        if name is not None and str(name) != row.id:
            raise PredictionsError(
                f"row {number}: the prediction is for 'id' {row.id!r}, the data set has "
                f"{str(name)!r} there: run the inference again (-m infer -r)"
            )


def _reasons_of_auc(agreement: Mapping[str, Any], of_means: Mapping[str, str]) -> dict[str, str]:
    """Return why ``auc`` or its interval is null, where the data set has labels."""
    if agreement.get("auc", 0.0) is None:
        rows = agreement["labelled"]["n"]
        reason = of_means.get("source_support", "one_class_only" if rows else "no_scored_rows")
        return {"auc": reason, "auc_ci95": reason}
    if agreement.get("auc_ci95", ()) is None:
        return {"auc_ci95": "undefined_in_some_resamples"}
    return {}


def _negated(score: Score) -> Score:
    return score if score.value is None else Score(-score.value)


def _detail(row: SupportedResponse, label: bool | None) -> dict[str, Any]:
    reasons = {name: score.reason for name, score in row.scores.items() if score.value is None}
    return {
        "id": row.id,
        **{name: score.value for name, score in row.scores.items()},
        "grounded": label,
        "response_key": response_key(row.text),
        "response_tokens": row.readings.alone.tokens,
        "response_chars": len(row.text),
        "sentences": [
            {
                "text": row.text[sentence.start : sentence.end],
                "source_support": sentence.source_support.value,
                "token_support": sentence.token_support.value,
            }
            for sentence in row.sentences
        ],
        **({"reasons": reasons} if reasons else {}),
    }
