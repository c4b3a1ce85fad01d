"""The systems in a report on a score of answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opencompass_ext.summarizers.reports.figures import amount_column, arrow, p_value, rank, share
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

    def column(name: str) -> list[str]:
        intervals = [system[f"{name}_ci95"] for system in systems]
        return amount_column([system[name] for system in systems], intervals)

    cells = [
        [rank(system["rank"]) for system in systems],
        [system["system"] for system in systems],
        [str(system["n"]) for system in systems],
        column("mean"),
        column("median"),
        *(() if is_complete else (column("common_mean"),)),
        [share(system["win_rate"]) for system in systems],
    ]
    if has_people:
        cells.append([share(system["human_win_rate"]) for system in systems])
        cells.append([str(system["human_votes"]) for system in systems])
    rows = list(zip(*cells, strict=True))
    notes = [
        _RANKED_BY[found["ranked_by"]].format(
            common=found["common_questions"], all=found["questions"]
        ),
        "Win rate: share of the comparisons with another system's answer to the same question "
        "that the score decides for this one.",
    ]
    if has_people:
        notes += [
            f"Order of the {tau['n']} systems by {meaning} and by people's win rate: tau-b "
            f"{share(tau['value'])}, p {p_value(tau['p'])}."
            for name, meaning in (("rank", "rank"), ("win_rate", "win rate"))
            if (tau := found["agreement_with_people"][name])["value"] is not None
        ]
    yield Section(f"Systems{suffix}", table=make_table(columns, rows), notes=tuple(notes))
    yield from _other_scores(systems, suffix)


def _other_scores(systems: list[Mapping[str, Any]], suffix: str) -> Iterator[Section]:
    names = [key for key in (systems[0] if systems else {}) if _is_other_score(systems, key)]
    if not names:
        return
    columns = [[system["system"] for system in systems]]
    for name in names:
        of_systems = [system[name] or {"mean": None, "rank": None} for system in systems]
        means = amount_column([of_system["mean"] for of_system in of_systems])
        places = [rank(of_system["rank"]) for of_system in of_systems]
        columns.append([f"{m} ({p})" for m, p in zip(means, places, strict=True)])
    rows = list(zip(*columns, strict=True))
    yield Section(
        f"Systems by the other scores{suffix}",
        table=make_table(["system", *names], rows),
        notes=("Mean over the system's answers, and its rank by that score.",),
        is_detail=True,
    )


def _is_other_score(systems: list[Mapping[str, Any]], key: str) -> bool:
    return any(isinstance(system.get(key), Mapping) for system in systems)
