"""THELMA's metrics on pairs of which one is known to be better: does the judge order them right?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.datasets.rag_pairs import SIDES
from opencompass_ext.datasets.rag_rows import sources_of
from opencompass_ext.errors import PredictionsError
from opencompass_ext.evaluators.thelma.evaluator import ThelmaEvaluator
from opencompass_ext.metrics.better_worse import PairAgreement, pair_agreement
from opencompass_ext.registry import EVALUATORS


@EVALUATORS.register_module()
class ThelmaPairsEvaluator(ThelmaEvaluator):
    """Judges both sides of each pair as ``ThelmaEvaluator`` does, and counts who wins.

    To be used with a ``RAGPairsDataset``. ``<metric>_agreement`` is the share of pairs whose
    better side scores higher, a tie being no agreement, with Wilson's interval; ``agreement`` holds
    wins, ties, losses, pairs without a score, the rate with half credit for ties, and the exact
    p-value of wins against losses. ``rivals`` holds the same for whoever prefers the shorter
    response, or the shorter sources, where the sides differ in that. Which metric a pair is about
    is up to the data: choose pairs by the data set's ``aspect`` and metrics by ``metrics``.

    Takes the arguments of ``ThelmaEvaluator``.
    """

    def score(
        self,
        prediction: Sequence[str | None],
        test_set: Sequence[Mapping[str, Any]],
        sources: Sequence[Any] | None = None,
        finish_reason: Sequence[str | None] | None = None,
    ) -> dict[str, Any]:
        """Return the agreement of each metric, with the details of both sides.

        Args:
            prediction: The response of each row.
            test_set: The rows of a ``RAGPairsDataset``.
            sources: Not used by recorded pairs; see ``ThelmaEvaluator``.
            finish_reason: Likewise.

        Raises:
            PredictionsError: The rows are no pairs.
            ModelError: The judge cannot be used at all.
        """
        _check_pairs(test_set)
        result = super().score(prediction, test_set, sources, finish_reason)
        details = result["details"]
        found = {name: _agreement([row[name] for row in details]) for name in self.options.metrics}
        kept = ("counts", "usage", "judging", "incomplete")
        return {
            **{f"{name}_agreement": seen.strict_rate for name, seen in found.items()},
            **{f"{name}_agreement_ci95": seen.strict_rate_ci95 for name, seen in found.items()},
            "reasons": {
                f"{name}_agreement{of}": "no_pair_scored"
                for name, seen in found.items()
                if seen.strict_rate is None
                for of in ("", "_ci95")
            },
            "coverage": {f"{name}_agreement": _coverage(seen) for name, seen in found.items()},
            "agreement": {name: seen._asdict() for name, seen in found.items()},
            "rivals": _rivals(prediction, test_set, sources),
            **{name: result[name] for name in kept if name in result},
            "details": [
                {**detail, "pair": row["pair"], "side": row["side"], "aspect": row["aspect"]}
                for detail, row in zip(details, test_set, strict=True)
            ],
            "interval": "Wilson",
            "report": "thelma_pairs",
        }


def _agreement(scores: Sequence[float | None]) -> PairAgreement:
    better, worse = (scores[side :: len(SIDES)] for side in range(len(SIDES)))
    return pair_agreement(better, worse)


def _rivals(
    responses: Sequence[str | None],
    test_set: Sequence[Mapping[str, Any]],
    retrieved: Sequence[Any] | None,
) -> dict[str, dict[str, Any]]:
    """Return how often the shorter side is the better one: a metric should do better than that."""
    own = retrieved or [None] * len(test_set)
    sources = [
        sources_of(row if found is None else {"sources": found})
        for row, found in zip(test_set, own, strict=True)
    ]
    chars = {
        "shorter_response": [len(response or "") for response in responses],
        "shorter_sources": [sum(len(s["text"]) for s in of_row or ()) for of_row in sources],
    }
    seen = {name: _agreement([-float(count) for count in of]) for name, of in chars.items()}
    return {name: pairs._asdict() for name, pairs in seen.items() if pairs.wins or pairs.losses}


def _coverage(seen: PairAgreement) -> dict[str, Any]:
    scored = seen.wins + seen.ties + seen.losses
    nulls = {"side_without_a_score": seen.unscored} if seen.unscored else {}
    return {"n_scored": scored, "n_total": scored + seen.unscored, "null_rows": nulls}


def _check_pairs(test_set: Sequence[Mapping[str, Any]]) -> None:
    for number, row in enumerate(test_set):
        first = test_set[number - number % len(SIDES)]
        is_right = row.get("side") == SIDES[number % len(SIDES)] and row["pair"] == first["pair"]
        if not is_right:
            raise PredictionsError(
                f"row {number}: expected a better and a worse row of each pair in turn, as "
                "RAGPairsDataset reads them"
            )
    if len(test_set) % len(SIDES):
        raise PredictionsError(
            f"{len(test_set)} rows make no whole pairs, as RAGPairsDataset reads them"
        )
