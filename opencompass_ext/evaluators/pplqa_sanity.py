"""The sanity battery: does PPLqa like a correct answer better than answers known to be worse?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opencompass_ext.errors import ConfigError, DataError, did_you_mean
from opencompass_ext.evaluators.answers import (
    AnswerRow,
    Predictor,
    answer_details,
    read_rows,
)
from opencompass_ext.evaluators.answers.nothing_scored import warn_if_nothing_scored
from opencompass_ext.evaluators.answers.predictors import length_predictor, usable
from opencompass_ext.evaluators.answers.side_by_side import side_by_side
from opencompass_ext.evaluators.base import BaseEvaluator
from opencompass_ext.evaluators.pplqa import answer_scores
from opencompass_ext.metrics.binary import wilson_interval
from opencompass_ext.metrics.kinds import best_kinds, is_in_order
from opencompass_ext.metrics.regression import fit_line
from opencompass_ext.registry import EVALUATORS

ORDER = ("entailed", "subtly_wrong", "unrelated")


@EVALUATORS.register_module()
class PPLqaSanityEvaluator(BaseEvaluator):
    """Which kind of answer a model likes best, where each question has answers of known kinds.

    The column ``model`` of the data set holds the kind. Metrics: ``correct_best``, the share of the
    questions whose correct answer has strictly the best ``pplqa``; ``strict_order``, the share in
    which correct, subtly wrong and unrelated follow one another strictly; ``length_r_squared``, how
    much of the variance of ``pplqa`` a line over the length in tokens accounts for. All from 0 to
    1; the first two are better when higher, and chance is 1/kinds and 1/6. Beside ``pplqa`` every
    variant and rival is put to the same test on the same questions, per category too; one that
    lacks values on some of them stands apart, beside ``pplqa`` on the others.

    Args:
        order: The kinds that should follow one another, the correct one first.
    """

    def __init__(self, order: Sequence[str] = ORDER) -> None:
        if isinstance(order, str) or len(order) < 2 or len(set(order)) < len(order):
            raise ConfigError(f"order must be a list of at least two kinds, got {order!r}")
        self.order = tuple(order)

    def score(
        self,
        q: Sequence[Any],
        a_given_q: Sequence[Any],
        a: Sequence[Any],
        test_set: Iterable[Mapping[str, Any]],
        id: Sequence[Any] | None = None,
        model: Sequence[Any] | None = None,
        answer_chars: Sequence[Any] | None = None,
        gptscore: Sequence[Any] | None = None,
        geval: Sequence[Any] | None = None,
        reason: Sequence[str | None] | None = None,
    ) -> dict[str, Any]:
        """Return how often each kind is liked best; the arguments are those of ``PPLqaEvaluator``.

        Raises:
            PredictionsError: A column is not what the inferencer writes, or of other rows.
            DataError: A row of the data set is not what it has to be, or a kind does not occur.
        """
        rows = read_rows(test_set, id, model, answer_chars)
        scores, more = answer_scores(q, a_given_q, a, gptscore, geval, reason)
        kinds = list(dict.fromkeys(row.system for row in rows))
        for kind in self.order if rows else ():
            if kind not in kinds:
                raise DataError(
                    f"no row has the model {kind!r}, which the order names: "
                    f"{did_you_mean(kind, kinds)}"
                )
        compared = [scores[0], *usable(scores[1:]), length_predictor(rows)]
        categories = dict.fromkeys(row.category for row in rows if row.category is not None)
        groups = [
            _group(category, rows, kinds, compared, self.order, more["answer_tokens"])
            for category in [None, *(categories if len(categories) > 1 else ())]
        ]
        own = groups[0]["predictors"][0]
        lost = scores[0].null_reasons()
        is_scored = sum(lost.values()) < len(rows)
        warn_if_nothing_scored(scores[0])
        metrics = {
            "correct_best": own["correct_best"],
            "strict_order": own["strict_order"],
            "length_r_squared": (own["lines"]["answer_tokens"] or {}).get("r_squared"),
        }
        return {
            **metrics,
            "reasons": _reasons(metrics, is_scored),
            "note": (
                f"correct_best: the {self.order[0]} answer has strictly the best pplqa; "
                f"strict_order: {' < '.join(self.order)}"
            ),
            "counts": {
                "rows": len(rows),
                "scored_rows": len(rows) - sum(lost.values()),
                "null_rows": lost,
            },
            "report": "pplqa_sanity",
            "analysis": {"order": list(self.order), "kinds": kinds, "groups": groups},
            "details": answer_details(rows, scores, **more),
        }


def _reasons(metrics: Mapping[str, float | None], is_scored: bool) -> dict[str, str]:
    of_nulls = dict.fromkeys(
        (name for name, value in metrics.items() if value is None), "no_complete_question"
    )
    if is_scored and "length_r_squared" in of_nulls:
        # A line needs no whole question, only two lengths and two scores.
        of_nulls["length_r_squared"] = "constant"
    return of_nulls


def _group(
    category: str | None,
    rows: Sequence[AnswerRow],
    kinds: Sequence[str],
    predictors: Sequence[Predictor],
    order: Sequence[str],
    tokens: Sequence[int],
) -> dict[str, Any]:
    """Return what the scores make of the questions of a category, or of all."""
    questions: dict[str, dict[str, int]] = {}
    for number, row in enumerate(rows):
        if category in (None, row.category):
            questions.setdefault(row.question, {})[row.system] = number
    absent = [
        next((f"no {kind} answer" for kind in kinds if kind not in of_kind), None)
        for of_kind in questions.values()
    ]
    whole = [q for q, why in zip(questions.values(), absent, strict=True) if why is None]
    numbers = [number for of_kind in questions.values() for number in of_kind.values()]

    def described(kept: Sequence[Mapping[str, int]], shown: Sequence[Predictor]) -> dict[str, Any]:
        lines = [
            {
                "answer_tokens": _line(predictor, numbers, tokens),
                "answer_chars": _line(predictor, numbers, [row.chars for row in rows]),
            }
            for predictor in shown
        ]
        return {
            "questions": len(kept),
            "predictors": [
                {**_liking(predictor, kept, order), "lines": of_predictor}
                for predictor, of_predictor in zip(shown, lines, strict=True)
            ],
        }

    found = side_by_side(whole, predictors, _why_missing, described)
    lost = Counter(why for why in absent if why is not None)
    return {"category": category, **found, "excluded": {**found["excluded"], **lost}}


def _why_missing(of_kind: Mapping[str, int], predictor: Predictor) -> str | None:
    for kind, number in of_kind.items():
        if (why := predictor.why_missing(number)) is not None:
            return f"{kind}, {predictor.name}: {why}"
    return None


def _liking(
    predictor: Predictor, questions: Sequence[Mapping[str, int]], order: Sequence[str]
) -> dict[str, Any]:
    goodness = [
        {kind: predictor.goodness(number) for kind, number in of_kind.items()}
        for of_kind in questions
    ]
    total, correct = len(questions), order[0]
    best = best_kinds(goodness, higher_is_better=True)
    strictly = sum(
        all(good[correct] > value for kind, value in good.items() if kind != correct)
        for good in goodness
    )
    ordered = sum(is_in_order(good, order, higher_is_better=True) for good in goodness)
    beaten = {
        kind: sum(good[correct] > good[kind] for good in goodness)
        for kind in best
        if kind != correct
    }
    return {
        "name": predictor.name,
        "higher_is_better": predictor.higher_is_better,
        "best": {kind: count / total for kind, count in best.items()},
        **_share("correct_best", strictly, total),
        **_share("strict_order", ordered, total),
        "correct_beats": {
            kind: {"share": count / total, "ci95": wilson_interval(count, total)}
            for kind, count in beaten.items()
        },
    }


def _share(name: str, count: int, total: int) -> dict[str, Any]:
    return {
        name: count / total if total else None,
        f"{name}_ci95": wilson_interval(count, total),
    }


def _line(
    predictor: Predictor, numbers: Sequence[int], lengths: Sequence[int]
) -> dict[str, Any] | None:
    """Return the line of a score over length, or None when either is constant."""
    scored = [
        (float(lengths[number]), value)
        for number in numbers
        if (value := predictor.scores[number].value) is not None
    ]
    line = fit_line([length for length, _ in scored], [value for _, value in scored])
    return None if line is None else line._asdict()
