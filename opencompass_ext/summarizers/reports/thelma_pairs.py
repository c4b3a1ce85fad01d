"""Agreement with pairs of which one is known to be better, as a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opencompass_ext.summarizers.reports.figures import UP, p_value, share
from opencompass_ext.summarizers.reports.report import Report, Section, make_table, part_of

COLUMNS = (
    *("metric", "wins", "ties", "losses", "no score", f"agreement {UP}"),
    *(f"half credit for ties {UP}", "p"),
)

_RIVAL_NOTE = "shorter response, shorter sources: a rule that prefers those, without a judge."
_RIVALS = {"shorter_response": "shorter response", "shorter_sources": "shorter sources"}


def thelma_pairs_report(dataset_abbr: str, results: Mapping[str, Mapping[str, Any]]) -> Report:
    """Return how often each metric scores the better of two answers higher.

    Args:
        dataset_abbr: The data set.
        results: Abbr of the model -> its results file.

    Raises:
        UnfitResults: A results file lacks what the report is made of.
    """
    sections = []
    for model, of_model in results.items():
        rows = [
            (
                name,
                *(str(found[key]) for key in ("wins", "ties", "losses", "unscored")),
                share(found["strict_rate"], found["strict_rate_ci95"]),
                share(found["half_credit_rate"]),
                p_value(found["p_value"]),
            )
            for name, found in [
                *part_of(of_model, "agreement").items(),
                *((_RIVALS[rival], seen) for rival, seen in of_model.get("rivals", {}).items()),
            ]
        ]
        incomplete = of_model.get("incomplete")
        sections.append(
            Section(
                model,
                table=make_table(COLUMNS, rows),
                notes=(
                    "agreement: the better one scores higher, a tie being none; [95 % Wilson "
                    "interval].",
                    "half credit for ties: 0.5 is chance. p: exact sign test of wins and losses.",
                    *((_RIVAL_NOTE,) if of_model.get("rivals") else ()),
                    *((incomplete,) if incomplete else ()),
                ),
            )
        )
    return Report(f"Better or worse: {dataset_abbr}", tuple(sections))
