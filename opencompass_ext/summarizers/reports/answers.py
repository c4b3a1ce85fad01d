"""The report on a score of answers: systems, agreement with people, confounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opencompass_ext.summarizers.reports.answers_agreement import (
    groundedness_sections,
    preference_sections,
    rank_sections,
)
from opencompass_ext.summarizers.reports.answers_models import models_sections
from opencompass_ext.summarizers.reports.answers_systems import systems_sections
from opencompass_ext.summarizers.reports.figures import p_value, share
from opencompass_ext.summarizers.reports.report import Report, Section, make_table, part_of
from opencompass_ext.words import listed

_PROPER_NAMES = {"pplqa": "PPLqa", "gptscore": "GPTScore", "geval": "G-EVAL"}


def answers_report(dataset: str, results: Mapping[str, Mapping[str, Any]]) -> Report:
    """Return the report on what one or several models say of the answers of a data set.

    Args:
        dataset: Abbr of the data set.
        results: Abbr of the model -> its results, as ``answer_results`` makes them.

    Raises:
        UnfitResults: A results file is not such.
    """
    analyses = {model: part_of(of_model, "analysis") for model, of_model in results.items()}
    primary = part_of(next(iter(analyses.values())), "primary")
    sections: list[Section] = []
    if len(analyses) > 1:
        unscored = {model: _unscored(of_model, primary) for model, of_model in results.items()}
        sections += models_sections(analyses, unscored)
    for model, analysis in analyses.items():
        suffix = f" · {model}" if len(analyses) > 1 else ""
        sections += _of_model(analysis, results[model], suffix)
    models = next(iter(analyses)) if len(analyses) == 1 else f"{len(analyses)} models"
    return Report(f"{_PROPER_NAMES.get(primary, primary)}: {dataset}, {models}", tuple(sections))


def _unscored(results: Mapping[str, Any], primary: str) -> frozenset[tuple[str, str]]:
    """Return question and system of each answer without a score."""
    return frozenset(
        (detail["id"], detail["model"])
        for detail in part_of(results, "details")
        if detail.get(primary) is None
    )


def _of_model(
    analysis: Mapping[str, Any], results: Mapping[str, Any], suffix: str
) -> Iterator[Section]:
    yield Section(f"What it says{suffix}", tuple(part_of(analysis, "statement")))
    yield from systems_sections(analysis, suffix)
    yield from preference_sections(analysis, suffix)
    yield from rank_sections(analysis, suffix)
    yield from groundedness_sections(analysis, suffix)
    yield _confounds(analysis, suffix)
    yield from _left_out(analysis, results, suffix)


def _confounds(analysis: Mapping[str, Any], suffix: str) -> Section:
    rows = [
        [
            record["name"],
            share(record["spearman"]),
            p_value(record["p"]),
            str(record["n"]),
            share(record["within_questions"]),
        ]
        for record in part_of(analysis, "length_correlations")
    ]
    return Section(
        f"Correlation with the length of the answer{suffix}",
        table=make_table(["score", "Spearman", "p", "n", "within questions"], rows),
        notes=(
            "Length in characters. Within questions: by the ranks among the answers to one "
            "question; that is what can mislead a comparison.",
        ),
    )


def _left_out(
    analysis: Mapping[str, Any], results: Mapping[str, Any], suffix: str
) -> Iterator[Section]:
    lines = []
    null_rows = part_of(results, "counts", "null_rows")
    if null_rows:
        total = part_of(results, "counts", "rows")
        lines.append(f"Answers without a score: {sum(null_rows.values())} of {total}.")
        lines += [f"{reason}: {number}" for reason, number in null_rows.items()]
    for name, reasons in part_of(analysis, "not_compared").items():
        lines.append(f"{name} has no value for any answer: {listed(reasons)}.")
    if lines:
        yield Section(f"What is left out{suffix}", notes=tuple(lines))
