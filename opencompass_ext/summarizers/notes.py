"""What a reader must know beside the numbers, as lines below the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opencompass_ext.records import TaskOutcome
from opencompass_ext.summarizers.groups import Group
from opencompass_ext.summarizers.results import PairResults


def direction_notes(results: Iterable[PairResults]) -> list[str]:
    """Return which metrics are better when lower, what an interval is, and evaluators' notes."""
    found = list(results)
    lower = dict.fromkeys(m for r in found for m in r.lower_is_better if m in r.metrics)
    notes = [f"Lower is better: {', '.join(lower)}."] if lower else []
    return (
        notes
        + _interval_notes([r for r in found if r.intervals])
        + list(dict.fromkeys(f"{r.note}." for r in found if r.note))
    )


def _interval_notes(found: Sequence[PairResults]) -> list[str]:
    drawn = list(dict.fromkeys(r.resampled for r in found if r.interval == "bootstrap"))
    notes = (
        [f"[low, high] is a 95 % bootstrap interval over {' or '.join(drawn)}."] if drawn else []
    )
    metrics_of: dict[str, dict[str, None]] = {}
    for results in found:
        if results.interval != "bootstrap":
            metrics_of.setdefault(results.interval, {}).update(dict.fromkeys(results.intervals))
    is_mixed = bool(drawn) or len(metrics_of) > 1
    for kind, metrics in metrics_of.items():
        whose = f" of {', '.join(metrics)}" if is_mixed else ""
        notes.append(f"[low, high]{whose} is a 95 % {kind} interval.")
    return notes


def count_notes(
    datasets: Sequence[str], results: Mapping[str, Mapping[str, PairResults]]
) -> list[str]:
    """Return what is not in the numbers; models that share a note on a data set share a line.

    Args:
        datasets: The data sets, in order.
        results: Model -> data set -> results.
    """
    notes = []
    for dataset in datasets:
        models_of: dict[str, list[str]] = {}
        for model, of_model in results.items():
            if lost := not_counted(of_model[dataset].counts):
                models_of.setdefault(lost, []).append(model)
        notes += [f"{_enumerate(m)} on {dataset}: {lost}" for lost, m in models_of.items()]
    return notes


def not_counted(counts: Mapping[str, Any]) -> str:
    """Return what the metrics leave out; empty when they leave nothing out.

    Example:
        >>> not_counted({"rows": 9, "scored_rows": 8, "unscored_tokens": 1})
        'rows without a counted token: 1 of 9; labelled tokens with nothing before them: 1'
    """
    rows = counts.get("rows")
    null_rows = counts.get("null_rows") or {}
    parts = []
    if null_rows:
        reasons = ", ".join(f"{reason}: {number}" for reason, number in null_rows.items())
        parts.append(f"rows without a score: {sum(null_rows.values())} of {rows} ({reasons})")
    if rows is not None and counts.get("scored_rows") is not None:
        empty = rows - counts["scored_rows"] - sum(null_rows.values())
        if empty:
            parts.append(f"rows without a counted token: {empty} of {rows}")
    if counts.get("truncated_rows"):
        parts.append(f"texts cut: {counts['truncated_rows']} of {rows}")
    for name, meaning in (
        ("truncated_tokens", "labelled tokens cut off"),
        ("unscored_tokens", "labelled tokens with nothing before them"),
        ("unaligned_chars", "labelled characters that no token owns"),
    ):
        if counts.get(name):
            parts.append(f"{meaning}: {counts[name]}")
    return "; ".join(parts)


def _enumerate(names: Sequence[str], at_most: int = 3) -> str:
    more = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {more} more" if more > 0 else "")


def group_note(group: Group, metrics: Mapping[str, Sequence[str]]) -> str:
    """Return what a group combines.

    Example:
        >>> group = Group("both", (("a", None), ("b", None)), "naive_average", (1, 1), "mean")
        >>> group_note(group, {"a": ["average_ppl"], "b": ["average_ppl"]})
        'both: naive_average of average_ppl over a, b'
    """
    chosen = group.chosen(metrics)
    if len({metric for _, metric in chosen}) == 1:
        members = f"{chosen[0][1] or 'the first metric'} over {', '.join(n for n, _ in chosen)}"
    else:
        members = ", ".join(f"{name} {metric or '(no metric)'}" for name, metric in chosen)
    return f"{group.name}: {group.operation} of {members}"


def missing_notes(group: str, results: Mapping[str, Mapping[str, PairResults]]) -> list[str]:
    """Return which members a group lacks, for each model on which it lacks any."""
    return [
        f"{group} has no value for {model}: missing {', '.join(of_model[group].missing_members)}"
        for model, of_model in results.items()
        if of_model[group].missing_members
    ]


def failure_note(outcome: TaskOutcome) -> str:
    """Return how and why a task ended early, and where its log is."""
    reason = f": {outcome.error}" if outcome.error else ""
    log = f" (log: {outcome.log})" if outcome.log else ""
    return f"{outcome.status} {outcome.task.name}{reason}{log}"
