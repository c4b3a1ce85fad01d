"""The THELMA report: metrics of each system, what to mend, and whether two systems differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.metrics.paired import FEW_ROWS, compare_paired
from opencompass_ext.metrics.thelma import METRICS
from opencompass_ext.summarizers.reports.coverage import mean_cell
from opencompass_ext.summarizers.reports.figures import UP, difference, p_value, share
from opencompass_ext.summarizers.reports.report import (
    Column,
    Report,
    Section,
    make_table,
    part_of,
)
from opencompass_ext.summarizers.results import MISSING

Results = Mapping[str, Any]

MEANINGS = {
    "source_precision_chunk": "chunks that the query needs",
    "source_precision_fact": "facts in the chunks that the query needs",
    "source_query_coverage": "sub-questions that the sources answer",
    "response_precision": "claims that the query needs",
    "response_query_coverage": "sub-questions that the response answers",
    "response_self_distinctness": "sentence pairs that do not repeat each other",
    "groundedness": "claims that the sources support",
}
# Comparisons of more systems than this are many tables: they go into the file only.
_SYSTEMS_ON_SCREEN = 3


def thelma_report(dataset_abbr: str, results: Mapping[str, Results]) -> Report:
    """Return the report of all systems on one data set.

    Args:
        dataset_abbr: The data set.
        results: Abbr of the system -> its results file.

    Raises:
        UnfitResults: A results file lacks what the report is made of.
    """
    sections = [_metrics(results), _diagnosis(results)]
    pairs = list(itertools.combinations(results, 2))
    sections += [
        _comparison(a, results[a], b, results[b], is_detail=len(results) > _SYSTEMS_ON_SCREEN)
        for a, b in pairs
    ]
    sections += [_judge(system, of_system) for system, of_system in results.items()]
    sections += [
        _claims(system, of) for system, of in results.items() if of.get("unsupported_claims")
    ]
    return Report(f"THELMA on {dataset_abbr}", tuple(sections))


def _metrics(results: Mapping[str, Results]) -> Section:
    names = [name for name in METRICS if any(name in of for of in results.values())]
    rows = [
        (f"{name} {UP}", MEANINGS[name], *(mean_cell(of, name) for of in results.values()))
        for name in names
    ]
    if any("refusal_rate" in of for of in results.values()):
        refusals = (mean_cell(of, "refusal_rate") for of in results.values())
        rows.append(("refusal_rate", "responses that decline to answer", *refusals))
    return Section(
        "Metrics",
        text=(
            "Shares from 0 to 1, averaged over rows: mean [95 % bootstrap interval] (rows with a "
            "value/all rows).",
        ),
        table=make_table(["metric", Column("share of", is_text=True), *results], rows),
        notes=tuple(note for name, of in results.items() for note in _row_notes(name, of)),
    )


def _row_notes(system: str, results: Results) -> Iterator[str]:
    """Yield what the means of a system leave out."""
    for name, rows in part_of(results, "coverage").items():
        if rows["null_rows"]:
            reasons = ", ".join(f"{reason}: {n}" for reason, n in rows["null_rows"].items())
            yield f"{system}, {name}: rows without a value: {reasons}"
    counts = part_of(results, "counts")
    if counts.get("unsure_verdicts"):
        yield (
            f'{system}: {counts["unsure_verdicts"]} of {counts["verdicts"]} verdicts are "cannot '
            'tell", which counts as no'
        )
    if counts.get("rows_with_text_for_the_judge"):
        yield (
            f"{system}: in {counts['rows_with_text_for_the_judge']} rows something looks as if it "
            "were meant for the judge (text_for_the_judge in the evidence)"
        )
    if counts.get("cut_responses"):
        yield f"{system}: {counts['cut_responses']} responses were cut by the limit of tokens"
    if results.get("incomplete"):
        yield f"{system}: {results['incomplete']}"


def _diagnosis(results: Mapping[str, Results]) -> Section:
    rows = []
    for system, of_system in results.items():
        for rule in part_of(of_system, "diagnosis", "rules"):
            if rule["holds"] or rule["rows"]:
                rows.append(
                    (
                        system,
                        rule["name"],
                        "yes" if rule["holds"] else ("no" if rule["holds"] is False else MISSING),
                        f"{rule['rows']}/{rule['rows_decided']}",
                        rule["meaning"],
                        rule["fix"],
                    )
                )
    if not rows:
        return Section("Diagnosis", text=("No pattern of low and high metrics holds.",))
    columns: list[str | Column] = [
        *("system", Column("pattern", is_text=True), "in the means", "rows"),
        *(Column("what it means", is_text=True), Column("fix", is_text=True)),
    ]
    return Section(
        "Diagnosis",
        table=make_table(columns, rows),
        notes=(
            *_cut_offs(results),
            "rows: those with the pattern, of those that have the metrics it needs.",
        ),
    )


def _cut_offs(results: Mapping[str, Results]) -> Iterator[str]:
    """Yield which values are low and which high, system by system where they differ in that."""
    of_systems = {
        system: (part_of(of, "diagnosis", "low_below"), part_of(of, "diagnosis", "high_from"))
        for system, of in results.items()
    }
    for low, high in dict.fromkeys(of_systems.values()):
        with_these = [system for system, ends in of_systems.items() if ends == (low, high)]
        whose = "Low" if len(with_these) == len(of_systems) else f"{', '.join(with_these)}: low"
        yield f"{whose} is below {low}, high is {high} or more; the paper gives no thresholds."


def _comparison(first: str, a: Results, second: str, b: Results, *, is_detail: bool) -> Section:
    title = f"{first} against {second}"
    if not a.get("details") or not b.get("details"):
        text = "The results hold no single rows (dump_details=False): nothing to compare."
        return Section(title, text=(text,), is_detail=is_detail)
    names = [name for name in METRICS if name in a and name in b]
    of_a, of_b = _by_row(a, names), _by_row(b, names)
    found = {name: compare_paired(of_a[name], of_b[name], seed=0) for name in names}
    rows = [
        (
            f"{name} {UP}",
            share(c.mean_first),
            share(c.mean_second),
            difference(c.difference, c.difference_ci95),
            p_value(c.p_value),
            f"{c.n_common} ({c.n_first}, {c.n_second})",
        )
        for name, c in found.items()
    ]
    few = [name for name, c in found.items() if c.n_common < FEW_ROWS]
    notes = [
        "Over the rows on which both have a value; in brackets how many each has by itself.",
        "Interval: paired bootstrap. p: paired permutation test, not corrected for the number of "
        "metrics.",
    ]
    if few:
        which = "every metric" if few == names else ", ".join(few)
        notes.append(f"Warning: fewer than {FEW_ROWS} common rows for {which}: too few to tell.")
    if part_of(a, "judging") != part_of(b, "judging"):
        notes.append(
            "Warning: the two were judged in different ways (judging in their results): evaluate "
            "both with one config."
        )
    table = make_table(["metric", first, second, "difference", "p", "rows"], rows)
    return Section(title, table=table, notes=tuple(notes), is_detail=is_detail)


def _by_row(results: Results, names: Sequence[str]) -> dict[str, dict[Any, float | None]]:
    return {
        name: {detail["id"]: detail.get(name) for detail in results["details"]} for name in names
    }


def _judge(system: str, results: Results) -> Section:
    rows = []
    for kind, of_kind in part_of(results, "usage").items():
        for origin in ("judge", "cache", "transcript"):
            if origin in of_kind:
                sums = of_kind[origin]
                rows.append(
                    (
                        kind,
                        origin,
                        str(sums["calls"]),
                        str(sums["attempts"]),
                        str(sums["input_tokens"]),
                        str(sums["output_tokens"]),
                        ", ".join(of_kind["used_for"]),
                    )
                )
    columns: list[str | Column] = [
        *("question", Column("answered by", is_text=True), "calls", "attempts"),
        *("input tokens", "output tokens", Column("for", is_text=True)),
    ]
    judge = part_of(results, "judging", "judge")
    shown = ", ".join(f"{key}={value}" for key, value in judge.items() if _is_short(value))
    return Section(
        f"Judge of {system}",
        text=(shown,) if shown else (),
        table=make_table(columns, rows),
        notes=("Only calls answered by the judge were made by this evaluation.",),
        is_detail=True,
    )


def _is_short(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and len(str(value)) <= 80


def _claims(system: str, results: Results) -> Section:
    rows = [
        (claim["id"], claim["text"], claim["verdict"], claim["why"] or claim["reason"] or "")
        for claim in part_of(results, "unsupported_claims")
    ]
    columns = [Column(name, is_text=True) for name in ("row", "claim", "supported", "why")]
    more = part_of(results, "counts", "unsupported_claims") - len(rows)
    return Section(
        f"Claims of {system} that the sources do not support",
        table=make_table(columns, rows),
        notes=(f"and {more} more: the evidence of each row has them all",) if more else (),
        is_detail=True,
    )
