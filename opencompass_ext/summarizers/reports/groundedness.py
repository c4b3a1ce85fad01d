"""Groundedness said by a judge and by likelihood, side by side on the same responses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from opencompass_ext.metrics.ranks import spearman
from opencompass_ext.metrics.roc import roc_auc, roc_auc_interval
from opencompass_ext.summarizers.reports.figures import UP, share
from opencompass_ext.summarizers.reports.report import Column, Section, make_table

Results = Mapping[str, Any]

JUDGED, SUPPORTED = "thelma", "source_support"
"""The reports whose results have the one and the other."""

NEEDED = ("groundedness", "source_support")
# Told by models that give the likelihood of every token.
FINER = "token_support"


class Pair(NamedTuple):
    """A data set and who was evaluated on it, or who scored it."""

    dataset: str
    model: str


class _Common(NamedTuple):
    """Responses that both know, as columns of equal length."""

    scores: dict[str, list[float]]
    labels: list[bool | None]


def groundedness_section(
    judged: Mapping[Pair, Results], supported: Mapping[Pair, Results]
) -> Section | None:
    """Return both measures on the responses that both have scored, or None when there are none.

    Two results speak of the same response when its row has the same id and the same text.

    Args:
        judged: THELMA's results by data set and system.
        supported: Source support's results by data set and scoring model.
    """
    rows = []
    for system, of_system in judged.items():
        for model, of_model in supported.items():
            common = _common(of_system, of_model)
            if common.labels:
                rows.append((system.model, model.model, *_figures(common)))
    if not rows:
        return None
    columns: list[str | Column] = [
        *("system", Column("support by", is_text=True), "n", f"judge's groundedness {UP}"),
        *(f"source_support {UP}", f"token_support {UP}", "rank correlation"),
        *("labelled", f"AUC judge {UP}", f"AUC source_support {UP}"),
    ]
    return Section(
        "Groundedness: judge and likelihood",
        text=(
            "On the responses that both have scored; means, and AUC where people labelled them.",
        ),
        table=make_table(columns, rows),
        notes=("Rank correlation: Spearman's, of the judge's groundedness with source_support.",),
    )


def _common(judged: Results, supported: Results) -> _Common:
    of_judge = {
        (str(detail["id"]), detail.get("response_key")): detail
        for detail in judged.get("details") or ()
    }
    kept = []
    for detail in supported.get("details") or ():
        key = (str(detail["id"]), detail.get("response_key"))
        if key[1] is not None and key in of_judge:
            both = {**detail, "groundedness": of_judge[key].get("groundedness")}
            if all(both.get(name) is not None for name in NEEDED):
                kept.append(both)
    has_finer = all(both.get(FINER) is not None for both in kept)
    names = (*NEEDED, FINER) if has_finer else NEEDED
    scores = {name: [both[name] for both in kept] for name in names}
    return _Common(scores, [both.get("grounded") for both in kept])


def _figures(common: _Common) -> list[str]:
    count = len(common.labels)
    judge, support = common.scores["groundedness"], common.scores["source_support"]
    finer = common.scores.get(FINER)
    labelled = [row for row, label in enumerate(common.labels) if label is not None]
    classes = [bool(common.labels[row]) for row in labelled]
    return [
        str(count),
        share(math.fsum(judge) / count),
        share(math.fsum(support) / count),
        share(None if finer is None else math.fsum(finer) / count),
        share(spearman(judge, support).value),
        str(len(labelled)),
        *(_auc(classes, [scores[row] for row in labelled]) for scores in (judge, support)),
    ]


def _auc(classes: list[bool], scores: list[float]) -> str:
    return share(roc_auc(classes, scores), roc_auc_interval(classes, scores, seed=0))
