"""The systems in a report on a score of answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opencompass_ext.summarizers.reports.figures import amount_column, arrow, p_value, rank, share
from opencompass_ext.summarizers.reports.report import Column, Section, make_table, part_of
from opencompass_ext.words import counted, listed

_NOT_RANKED = {
    "no_scores": "no answers with a score to compare",
    "one_system": "there is only one system",
    "one_scored_system": "only one system has answers with a score",
    "no_shared_question": "no two systems have a score on the same question",
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
    table = make_table(columns, rows)
    yield Section(f"Systems{suffix}", table=table, notes=tuple(_notes(found, has_people)))
    yield from _other_scores(systems, primary, suffix)


def _notes(found: Mapping[str, Any], has_people: bool) -> Iterator[str]:
    yield _ranked_by(found)
    yield (
        "Win rate: share of the comparisons with another system's answer to the same question "
        "that the score decides for this one."
    )
    for name, meaning in (("rank", "rank"), ("win_rate", "win rate")) if has_people else ():
        tau = found["agreement_with_people"][name]
        if tau["value"] is not None:
            yield (
                f"Order of the {tau['n']} systems by {meaning} and by people's win rate: tau-b "
                f"{share(tau['value'])}, p {p_value(tau['p'])}."
            )


def _ranked_by(found: Mapping[str, Any]) -> str:
    if found["ranked_by"] == "common_mean":
        common, questions = found["common_questions"], counted(found["questions"], "question")
        of_all = questions if common == found["questions"] else f"{common} of {questions}"
        return f"Ranked by the mean over the {of_all} with a score of every system."
    if found["ranked_by"] == "win_rate":
        return "Ranked by win rate, as no question has a score of every system."
    reason = part_of(found, "not_ranked")
    said = f"Not ranked: {_NOT_RANKED[reason]}"
    if reason == "no_scores" and found["null_rows"]:
        said += f" (reasons: {listed(found['null_rows'])})"
    return f"{said}."


def _other_scores(systems: list[Mapping[str, Any]], primary: str, suffix: str) -> Iterator[Section]:
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
    own = sum(system["n"] for system in systems)
    counts = {name: sum((s[name] or {"n": 0})["n"] for s in systems) for name in names}
    yield Section(
        f"Systems by the other scores{suffix}",
        table=make_table(["system", *names], rows),
        notes=(
            "Mean over the system's answers, and its rank by that score.",
            *(
                f"{name} is over {counted(n, 'answer')}, {primary} over {own}: they cannot be "
                "compared one to one."
                for name, n in counts.items()
                if n != own
            ),
        ),
        is_detail=True,
    )


def _is_other_score(systems: list[Mapping[str, Any]], key: str) -> bool:
    return any(isinstance(system.get(key), Mapping) for system in systems)
