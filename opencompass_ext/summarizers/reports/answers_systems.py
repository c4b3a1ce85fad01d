"""The systems in a report on a score of answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opencompass_ext.summarizers.reports.figures import amount, arrow, p_value, rank, share
from opencompass_ext.summarizers.reports.report import Column, Section, make_table, part_of

_RANKED_BY = {
    "common_mean": "Ranked by the mean over the {common} of {all} questions with a score of every "
    "system.",
    "win_rate": "Ranked by win rate, as no question has a score of every system.",
    None: "Not ranked: no two systems share a question.",
}


def systems_sections(analysis: Mapping[str, Any], suffix: str) -> Iterator[Section]:
    """Yield the table of the systems and, for the file, that of the other scores.

    Args:
        analysis: What ``answer_results`` gives under this name.
        suffix: End of the titles: which model it is about.
    """
    found = part_of(analysis, "systems")
    primary = part_of(analysis, "primary")
    systems = part_of(found, "systems")
    mark = arrow(part_of(analysis, "higher_is_better"))
    is_complete = found["common_questions"] == found["questions"]
    has_people = any("human_win_rate" in system for system in systems)
    columns: list[str | Column] = [
        Column("rank"),
        Column("system", is_text=True),
        "n",
        f"{primary} {mark} mean",
        "median",
        *(() if is_complete else ("on common questions",)),
        "win rate ↑",
        *(("people's win rate ↑", "votes") if has_people else ()),
    ]
    rows = [
        [
            rank(system["rank"]),
            system["system"],
            str(system["n"]),
            amount(system["mean"], system["mean_ci95"]),
            amount(system["median"], system["median_ci95"]),
            *(() if is_complete else (amount(system["common_mean"], system["common_mean_ci95"]),)),
            share(system["win_rate"]),
            *((share(system["human_win_rate"]), str(system["human_votes"])) if has_people else ()),
        ]
        for system in systems
    ]
    notes = [
        _RANKED_BY[found["ranked_by"]].format(
            common=found["common_questions"], all=found["questions"]
        ),
        "Win rate: share of the comparisons with another system's answer to the same question "
        "that the score decides for this one.",
    ]
    if has_people and found["agreement_with_people"]["value"] is not None:
        tau = found["agreement_with_people"]
        notes.append(
            f"Order of the {tau['n']} systems by this score and by people's win rate: tau-b "
            f"{share(tau['value'])}, p {p_value(tau['p'])}."
        )
    yield Section(f"Systems{suffix}", table=make_table(columns, rows), notes=tuple(notes))
    yield from _other_scores(systems, suffix)


def _other_scores(systems: list[Mapping[str, Any]], suffix: str) -> Iterator[Section]:
    names = [key for key in (systems[0] if systems else {}) if _is_other_score(systems, key)]
    if not names:
        return
    rows = []
    for system in systems:
        cells = [
            "-"
            if system[name] is None
            else f"{amount(system[name]['mean'])} ({rank(system[name]['rank'])})"
            for name in names
        ]
        rows.append([system["system"], *cells])
    yield Section(
        f"Systems by the other scores{suffix}",
        table=make_table(["system", *names], rows),
        notes=("Mean over the system's answers, and its rank by that score.",),
        is_detail=True,
    )


def _is_other_score(systems: list[Mapping[str, Any]], key: str) -> bool:
    return any(isinstance(system.get(key), Mapping) for system in systems)
