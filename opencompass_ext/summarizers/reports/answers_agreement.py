"""Agreement with people in a report on a score of answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.summarizers.reports.figures import arrow, difference, p_value, share
from opencompass_ext.summarizers.reports.report import Section, make_table, part_of

LENGTH = "answer_chars"
_ORDER_NOTE = (
    "F1 of first (second): of the answer that stands first (second) in the data set being "
    "preferred. Accuracy counts equal scores 0.5; F1 and MCC leave them out."
)


def preference_sections(analysis: Mapping[str, Any], suffix: str) -> Iterator[Section]:
    """Yield the agreement with preferences, overall and for the file also per category.

    Args:
        analysis: What ``answer_results`` gives under this name.
        suffix: End of the titles: which model it is about.
    """
    preferences = part_of(analysis, "preferences")
    if preferences is None:
        return
    kinds = {"votes": "per vote", "majority": "by majority"}
    for by, meaning in kinds.items():
        found = preferences[by]
        if found is None:
            continue
        overall, *categories = found["groups"]
        notes = [_counted(overall, "votes" if by == "votes" else "pairs", found)]
        if by == "votes" and preferences["majority"] is None:
            notes.append("Each pair has one vote, so the majority is the same.")
        notes += [_ORDER_NOTE, *_length_notes(found)]
        yield Section(
            f"Agreement with people's preferences, {meaning}{suffix}",
            table=_preference_table(overall["predictors"]),
            notes=tuple(notes),
        )
        for measure, name in (("accuracy", "Accuracy"), ("mcc", "MCC")):
            yield from _by_category(
                measure, f"{name} by category, {meaning}{suffix}", overall, categories
            )


def rank_sections(analysis: Mapping[str, Any], suffix: str) -> Iterator[Section]:
    """Yield the agreement with ranks; arguments as in ``preference_sections``."""
    ranks = part_of(analysis, "ranks")
    if ranks is None:
        return
    overall, *categories = ranks["groups"]
    rows = []
    for record in overall["predictors"]:
        versus = record.get("versus_length") or {"value": None, "ci95": None}
        rows.append(
            [
                score_label(record),
                share(record["tau_b"], record["tau_b_ci95"]),
                p_value(record["tau_b_p"]),
                difference(versus["value"], versus["ci95"]),
                share(record["mean_tau"], record["mean_tau_ci95"]),
                str(record["questions_in_mean"]),
            ]
        )
    headings = ["tau-b ↑, pooled", "p", "less that of length", "mean of questions ↑", "of"]
    yield Section(
        f"Agreement with people's ranks{suffix}",
        table=make_table(["score", *headings], rows),
        notes=(
            _counted(overall, "answers", {}),
            "The p-value takes ranks of one question for independent, which they are not; the "
            "intervals resample questions.",
            *_length_notes(ranks),
        ),
    )
    yield from _by_category("tau_b", f"Tau-b by category{suffix}", overall, categories)


def groundedness_sections(analysis: Mapping[str, Any], suffix: str) -> Iterator[Section]:
    """Yield how well scores tell grounded answers; arguments as in ``preference_sections``."""
    found = part_of(analysis, "groundedness")
    if found is None:
        return
    rows = []
    for record in found["predictors"]:
        versus = record.get("versus_length") or {"value": None, "ci95": None}
        rows.append(
            [
                score_label(record),
                share(record["auc"], record["auc_ci95"]),
                difference(versus["value"], versus["ci95"]),
            ]
        )
    yield Section(
        f"Grounded answers against others{suffix}",
        table=make_table(["score", "AUC ↑", "less that of length"], rows),
        notes=(
            f"{found['n']} labelled answers, {found['grounded']} of them grounded."
            + _excluded(found["excluded"]),
            *_length_notes(found),
        ),
    )


def _preference_table(records: Sequence[Mapping[str, Any]]) -> Any:
    rows = []
    for record in records:
        versus = record.get("versus_length") or {"value": None, "ci95": None, "p": None}
        rows.append(
            [
                score_label(record),
                share(record["accuracy"], record["accuracy_ci95"]),
                difference(versus["value"], versus["ci95"]),
                p_value(versus["p"]),
                share(record["mcc"], record["mcc_ci95"]),
                share(record["f1_first"]),
                share(record["f1_second"]),
                str(record["equal_scores"]),
            ]
        )
    headings = ["score", "accuracy ↑", "less that of length", "p", "MCC ↑", "F1 of first"]
    return make_table([*headings, "of second", "equal"], rows)


def _by_category(
    measure: str,
    title: str,
    overall: Mapping[str, Any],
    categories: Sequence[Mapping[str, Any]],
) -> Iterator[Section]:
    if not categories:
        return
    groups = [overall, *categories]
    rows = []
    for record in overall["predictors"]:
        cells = []
        for group in groups:
            same = next((r for r in group["predictors"] if r["name"] == record["name"]), None)
            cells.append(share(None if same is None else same[measure]))
        rows.append([score_label(record), *cells])
    headings = [f"{group['category'] or 'all'} ({group['n']})" for group in groups]
    yield Section(
        title,
        table=make_table(["score", *headings], rows),
        is_detail=True,
    )


def score_label(record: Mapping[str, Any]) -> str:
    """Return the name of a score with the arrow that points to its better values."""
    if record["name"] == LENGTH:
        return "longer wins"
    return f"{record['name']} {arrow(record['higher_is_better'])}"


def _counted(group: Mapping[str, Any], what: str, votes: Mapping[str, Any]) -> str:
    said = f"{group['n']} {what} on {group['questions']} questions, the same for every score."
    if group.get("ties"):
        said += f" Ties left out: {group['ties']}."
    if votes.get("unanswered"):
        said += f" About an answer that is not there: {votes['unanswered']}."
    return said + _excluded(group["excluded"])


def _length_notes(found: Mapping[str, Any]) -> list[str]:
    """Return which direction of length scores are compared with, if it is not the usual one."""
    if part_of(found, "length_direction") == "longer":
        return []
    return [
        'Length, where scores are compared with it, is "shorter wins", which is right more often '
        "here."
    ]


def _excluded(reasons: Mapping[str, int]) -> str:
    if not reasons:
        return ""
    listed = ", ".join(f"{reason} ({number})" for reason, number in reasons.items())
    return f" Left out for want of a score: {listed}."
