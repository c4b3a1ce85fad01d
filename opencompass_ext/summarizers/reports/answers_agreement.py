"""Agreement with people in a report on a score of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.summarizers.reports.figures import arrow, difference, p_value, share
from opencompass_ext.summarizers.reports.report import Section, make_table, part_of
from opencompass_ext.words import counted, listed

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
        what = "vote" if by == "votes" else "pair"
        notes = [_counted(overall, what, found)]
        if by == "votes" and preferences["majority"] is None:
            notes.append("Each pair has one vote, so the majority is the same.")
        notes += [_ORDER_NOTE, *_length_notes(found), *partial_notes(overall, what)]
        yield Section(
            f"Agreement with people's preferences, {meaning}{suffix}",
            table=make_table(["score", *_PREFERENCE_HEADINGS], _rows(overall, _preference_cells)),
            notes=tuple(notes),
        )
        title = f"Preferences, {meaning}: scores that lack some{suffix}"
        yield from _partial_sections(title, overall, what, _PREFERENCE_HEADINGS, _preference_cells)
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
    yield Section(
        f"Agreement with people's ranks{suffix}",
        table=make_table(["score", *_RANK_HEADINGS], _rows(overall, _rank_cells)),
        notes=(
            _counted(overall, "answer", {}),
            "The p-value treats ranks within a question as independent, which they are not; the "
            "intervals resample questions.",
            *_length_notes(ranks),
            *partial_notes(overall, "answer"),
        ),
    )
    title = f"Ranks: scores that lack some{suffix}"
    yield from _partial_sections(title, overall, "answer", _RANK_HEADINGS, _rank_cells)
    yield from _by_category("tau_b", f"Tau-b by category{suffix}", overall, categories)


def groundedness_sections(analysis: Mapping[str, Any], suffix: str) -> Iterator[Section]:
    """Yield how well scores tell grounded answers; arguments as in ``preference_sections``."""
    found = part_of(analysis, "groundedness")
    if found is None:
        return
    answers = counted(found["n"], "labelled answer")
    yield Section(
        f"Grounded answers against others{suffix}",
        table=make_table(["score", *_AUC_HEADINGS], _rows(found, _auc_cells)),
        notes=(
            f"{answers}, {found['grounded']} of them grounded." + _excluded(found),
            *_length_notes(found),
            *partial_notes(found, "labelled answer"),
        ),
    )
    title = f"Grounded answers: scores that lack some{suffix}"
    yield from _partial_sections(title, found, "labelled answer", _AUC_HEADINGS, _auc_cells)


def partial_notes(group: Mapping[str, Any], what: str) -> list[str]:
    """Return which scores have no place among those on the same items, and how many each lacks.

    Args:
        group: What ``side_by_side`` gives.
        what: What the items are, such as ``"vote"``.
    """
    total = group["questions" if what == "question" else "n"]
    return [
        f"{block['score']} is not above: it lacks a value on {sum(block['lacks'].values())} of "
        f"the {counted(total, what)}: {listed(block['lacks'])}."
        for block in part_of(group, "partial")
    ]


Cells = Callable[[Mapping[str, Any]], list[str]]


def _rows(group: Mapping[str, Any], cells: Cells) -> list[list[str]]:
    return [[score_label(record), *cells(record)] for record in group["predictors"]]


def _partial_sections(
    title: str, group: Mapping[str, Any], what: str, headings: Sequence[str], cells: Cells
) -> Iterator[Section]:
    """Yield each score that lacks values with the primary one and length on what it has."""
    blocks = part_of(group, "partial")
    if not blocks:
        return
    rows = []
    for block in blocks:
        for place, record in enumerate(block["predictors"]):
            name = score_label(record)
            named = name if place == 0 else f"{name}, on the same {what}s"
            rows.append([named, str(block["n"]), *cells(record)])
    yield Section(
        title,
        table=make_table(["score", f"{what}s", *headings], rows),
        notes=(f"Each beside the others on the {what}s for which it has a value.",),
        is_detail=True,
    )


_PREFERENCE_HEADINGS = (
    *("accuracy ↑", "minus that of length", "p", "MCC ↑"),
    *("F1 of first", "of second", "equal"),
)


def _preference_cells(record: Mapping[str, Any]) -> list[str]:
    versus = record.get("versus_length") or {"value": None, "ci95": None, "p": None}
    return [
        share(record["accuracy"], record["accuracy_ci95"]),
        difference(versus["value"], versus["ci95"]),
        p_value(versus["p"]),
        share(record["mcc"], record["mcc_ci95"]),
        share(record["f1_first"]),
        share(record["f1_second"]),
        str(record["equal_scores"]),
    ]


_RANK_HEADINGS = ("tau-b ↑, pooled", "p", "minus that of length", "mean of questions ↑", "of")


def _rank_cells(record: Mapping[str, Any]) -> list[str]:
    versus = record.get("versus_length") or {"value": None, "ci95": None}
    return [
        share(record["tau_b"], record["tau_b_ci95"]),
        p_value(record["tau_b_p"]),
        difference(versus["value"], versus["ci95"]),
        share(record["mean_tau"], record["mean_tau_ci95"]),
        str(record["questions_in_mean"]),
    ]


_AUC_HEADINGS = ("AUC ↑", "minus that of length")


def _auc_cells(record: Mapping[str, Any]) -> list[str]:
    versus = record.get("versus_length") or {"value": None, "ci95": None}
    return [
        share(record["auc"], record["auc_ci95"]),
        difference(versus["value"], versus["ci95"]),
    ]


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
    questions = counted(group["questions"], "question")
    said = f"{counted(group['n'], what)} on {questions}, the same for every score."
    if group.get("ties"):
        said += f" Ties left out: {group['ties']}."
    if votes.get("unanswered"):
        said += f" About a missing answer: {votes['unanswered']}."
    return said + _excluded(group)


def _length_notes(found: Mapping[str, Any]) -> list[str]:
    """Return which direction of length scores are compared with, if it is not the usual one."""
    if part_of(found, "length_direction") == "longer":
        return []
    return [
        'Length, where scores are compared with it, is "shorter wins", which is right more often '
        "here."
    ]


def _excluded(group: Mapping[str, Any]) -> str:
    if not group["excluded"]:
        return ""
    primary = group["predictors"][0]["name"]
    return f" Left out for lack of a {primary}: {listed(group['excluded'])}."
