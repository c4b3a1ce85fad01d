"""From scores of answers to a results file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.evaluators.answers.agreement import preference_agreement, ranks_agreement
from opencompass_ext.evaluators.answers.confounds import length_correlations
from opencompass_ext.evaluators.answers.groundedness import groundedness
from opencompass_ext.evaluators.answers.nothing_scored import warn_if_nothing_scored
from opencompass_ext.evaluators.answers.predictors import Predictor, length_predictor, usable
from opencompass_ext.evaluators.answers.rows import AnswerRow
from opencompass_ext.evaluators.answers.statements import (
    coverage_statement,
    groundedness_statement,
    preference_statement,
    ranks_statement,
)
from opencompass_ext.evaluators.answers.systems import systems_table
from opencompass_ext.metrics.bootstrap import MIN_UNITS, mean_interval
from opencompass_ext.metrics.mean import mean_of

ONE_QUESTION = "fewer_than_two_questions"
_WITHOUT_VALUE = {
    "mcc": "one_class_only",
    "f1_first": "class_never_occurs",
    "f1_second": "class_never_occurs",
    "tau_b": "no_two_ranks_differ",
    "mean_tau": "no_two_ranks_differ",
    "auc": "one_class_only",
}
"""Why a metric has no value although there are answers to compare."""


def answer_results(
    rows: Sequence[AnswerRow],
    primary: Predictor,
    rivals: Sequence[Predictor],
    *,
    of_sources: Sequence[Predictor] = (),
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    """Return the results of a score of answers: metrics, systems, agreement, confounds.

    The metrics at the top level are the mean of the score and, where the data has them,
    ``accuracy``, ``mcc``, ``f1_first``, ``f1_second`` and ``longer_wins`` (per vote), ``tau_b`` and
    ``mean_tau`` (against ranks), and ``auc`` (of groundedness). All are over every answer, vote or
    label for which the score itself has a value, whatever the others lack.

    Args:
        rows: The answers.
        primary: The score.
        rivals: Other scores of the same answers. Those without any value are left out and named;
            those that lack some are set against the score on what they have.
        of_sources: Scores that stand beside the others on answers labelled grounded or not only.
        seed: Seed of all intervals; questions are resampled.
        resamples: Resamples of each interval.
    """
    warn_if_nothing_scored(primary)
    length = length_predictor(rows)
    compared = [primary, *usable(rivals), length]
    options = {"seed": seed, "resamples": resamples}
    results = _mean(rows, primary, seed, resamples)
    preferences = preference_agreement(rows, compared, **options)
    if preferences is not None:
        overall = preferences["votes"]["groups"][0]
        _put(
            results, overall, primary, {m: m for m in ("accuracy", "mcc", "f1_first", "f1_second")}
        )
        _put(results, overall, length, {"accuracy": "longer_wins"})
    of_ranks = ranks_agreement(rows, compared, **options)
    if of_ranks is not None:
        _put(results, of_ranks["groups"][0], primary, {"tau_b": "tau_b", "mean_tau": "mean_tau"})
    grounded = groundedness(rows, [*compared, *usable(of_sources)], **options)
    if grounded is not None:
        _put(results, grounded, primary, {"auc": "auc"})
    systems = systems_table(rows, primary, [*usable(rivals), length], **options)
    return {
        **results,
        "lower_is_better": [] if primary.higher_is_better else [primary.name],
        "resampled": "questions",
        "counts": _counts(rows, primary),
        "analysis": {
            "primary": primary.name,
            "higher_is_better": primary.higher_is_better,
            "statement": _statement(primary.name, systems, preferences, of_ranks, grounded),
            "systems": systems,
            "preferences": preferences,
            "ranks": of_ranks,
            "groundedness": grounded,
            "length_correlations": length_correlations(rows, compared),
            "not_compared": {p.name: p.null_reasons() for p in rivals if p not in compared},
        },
    }


def _counts(rows: Sequence[AnswerRow], primary: Predictor) -> dict[str, Any]:
    lost = primary.null_reasons()
    return {
        "rows": len(rows),
        "scored_rows": len(rows) - sum(lost.values()),
        "null_rows": lost,
        "questions": len({row.question for row in rows}),
        "systems": len({row.system for row in rows}),
    }


def _statement(
    primary: str,
    systems: Mapping[str, Any],
    preferences: Mapping[str, Any] | None,
    of_ranks: Mapping[str, Any] | None,
    grounded: Mapping[str, Any] | None,
) -> list[str]:
    said = coverage_statement(primary, systems)
    if preferences is not None:
        said += preference_statement(primary, preferences)
    if of_ranks is not None:
        said += ranks_statement(primary, of_ranks)
    if grounded is not None:
        said += groundedness_statement(primary, grounded)
    return said


def _mean(
    rows: Sequence[AnswerRow], primary: Predictor, seed: int, resamples: int
) -> dict[str, Any]:
    scored = [
        (score.value, row.question)
        for score, row in zip(primary.scores, rows, strict=True)
        if score.value is not None
    ]
    values = [value for value, _ in scored]
    questions = [question for _, question in scored]
    name, interval = primary.name, mean_interval(values, questions, seed=seed, resamples=resamples)
    reasons = {}
    if not values:
        reasons = dict.fromkeys((name, f"{name}_ci95"), _main_reason(primary))
    elif interval is None:
        reasons[f"{name}_ci95"] = ONE_QUESTION
    return {name: mean_of(values), f"{name}_ci95": interval, "reasons": reasons}


def _put(
    results: dict[str, Any],
    group: dict[str, Any],
    predictor: Predictor,
    metrics: Mapping[str, str],
) -> None:
    """Put metrics of a predictor at the top level, with their intervals or why they have none.

    Args:
        results: Where they are put.
        group: Holds the record of the predictor.
        predictor: The predictor.
        metrics: Name in the record -> name at the top level.
    """
    record = next(r for r in group["predictors"] if r["name"] == predictor.name)
    for metric, name in metrics.items():
        results[name] = record[metric]
        has_interval = f"{metric}_ci95" in record
        if has_interval:
            results[f"{name}_ci95"] = record[f"{metric}_ci95"]
        if record[metric] is None:
            reason = _WITHOUT_VALUE[metric] if group["n"] else "nothing_to_compare"
            results["reasons"][name] = reason
            if has_interval:
                results["reasons"][f"{name}_ci95"] = reason
        elif has_interval and record[f"{metric}_ci95"] is None:
            results["reasons"][f"{name}_ci95"] = _why_no_interval(metric, group["questions"])


def _why_no_interval(metric: str, questions: int) -> str:
    if questions < 2:
        return ONE_QUESTION
    if metric == "mcc" and questions < MIN_UNITS:
        return f"fewer_than_{MIN_UNITS}_questions"
    return "undefined_in_some_resamples"


def _main_reason(primary: Predictor) -> str:
    lost = primary.null_reasons()
    return max(lost, key=lambda reason: lost[reason]) if lost else "no_rows"
