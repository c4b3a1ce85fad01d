"""The source-support report: means, what people found beside it, kinds, the weakest sentences."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.summarizers.reports.coverage import mean_cell
from opencompass_ext.summarizers.reports.figures import UP, amount, difference, share
from opencompass_ext.summarizers.reports.report import (
    Column,
    Report,
    Section,
    Table,
    make_table,
    part_of,
)
from opencompass_ext.summarizers.results import MISSING

Results = Mapping[str, Any]

MEANINGS = {
    "source_support": "share of the response's NLL that the sources explain",
    "token_support": "the same of each token, averaged",
    "weakest_sentence": "token_support of the least supported sentence",
}
_OF_KINDS = ("source_support", "token_support")
_MOST_SENTENCES = 20


def source_support_report(dataset_abbr: str, results: Mapping[str, Results]) -> Report:
    """Return the report of all scoring models on one data set.

    Args:
        dataset_abbr: The data set.
        results: Abbr of the model -> its results file.

    Raises:
        UnfitResults: A results file lacks what the report is made of.
    """
    sections = [_metrics(results)]
    for model, of_model in results.items():
        if of_model.get("labelled") is not None:
            sections.append(_labelled(model, of_model["labelled"]))
        if of_model.get("kinds") is not None:
            sections += _kinds(model, of_model["kinds"])
    for model, of_model in results.items():
        weakest = _weakest_sentences(of_model)
        if weakest:
            sections.append(_sentences(model, weakest))
    return Report(f"Source support on {dataset_abbr}", tuple(sections))


def _metrics(results: Mapping[str, Results]) -> Section:
    rows = [
        (f"{name} {UP}", meaning, *(mean_cell(of, name) for of in results.values()))
        for name, meaning in MEANINGS.items()
    ]
    notes = [
        f"{model}: rows without a value: {reason}: {rows}"
        for model, of in results.items()
        for reason, rows in part_of(of, "counts", "null_rows").items()
    ]
    notes += [
        f"{model}: {part_of(of, 'counts', 'windowed_rows')} responses followed only the end of "
        "their sources, which are longer than the model"
        for model, of in results.items()
        if part_of(of, "counts", "windowed_rows")
    ]
    return Section(
        "Means over the responses",
        text=(
            "How much easier a language model finds a response after its sources; no judge is "
            "asked. It sees support, not truth.",
        ),
        table=make_table(["score", Column("what it says", is_text=True), *results], rows),
        notes=tuple(notes),
    )


def _labelled(model: str, labelled: Results) -> Section:
    rows = []
    for record in part_of(labelled, "scores"):
        against = record.get("versus_length")
        rows.append(
            (
                f"{record['name']} ({record['direction']})"
                if "direction" in record
                else record["name"],
                share(record["auc"], record["auc_ci95"]),
                MISSING if against is None else difference(against["value"], against["ci95"]),
            )
        )
    notes = [f"left out: {why}: {rows}" for why, rows in part_of(labelled, "excluded").items()]
    return Section(
        f"Agreement with human labels, {model}",
        text=(
            f"{labelled['n']} responses have a label, {labelled['grounded']} are grounded. AUC: "
            "how often a grounded one scores above another; 0.5 is chance.",
            *_statement(part_of(labelled, "scores")),
        ),
        table=make_table(["score", f"AUC {UP}", "over length"], rows),
        notes=tuple(notes),
    )


def _statement(records: Sequence[Results]) -> Iterator[str]:
    """Yield whether source_support tells more than the length of the response does."""
    own = next((r for r in records if r["name"] == "source_support"), {})
    interval = (own.get("versus_length") or {}).get("ci95")
    if interval is None:
        yield "Too few labelled responses to tell source_support from their length."
    elif interval[0] > 0:
        yield "source_support tells them apart better than their length does."
    elif interval[1] < 0:
        yield "source_support tells them apart worse than their length does: rely on neither."
    else:
        yield "On these responses source_support does not beat their length for certain."


def _kinds(model: str, kinds: Results) -> Iterator[Section]:
    yield Section(f"Kinds of responses, by {model}", table=_kind_means(part_of(kinds, "means")))
    yield Section(
        f"Is the supported one higher? By {model}",
        text=("Of responses to the same sources; 0.5 is chance.",),
        table=_kind_pairs(part_of(kinds, "pairs")),
        notes=("[low, high] is Wilson's 95 % interval; in brackets the pairs with a score.",),
    )


def _kind_means(kinds: Sequence[Results]) -> Table:
    rows = [
        (
            kind["kind"],
            {True: "yes", False: "no"}.get(kind["grounded"], MISSING),
            str(kind["n"]),
            *(amount(kind[name]) for name in _OF_KINDS),
        )
        for kind in kinds
    ]
    return make_table(["kind", "supported", "n", *(f"{name} {UP}" for name in _OF_KINDS)], rows)


def _kind_pairs(pairs: Sequence[Results]) -> Table:
    rows = [
        (
            pair["grounded"],
            pair["not_grounded"],
            *(_rate_cell(pair[name]) for name in _OF_KINDS),
        )
        for pair in pairs
    ]
    columns: list[str | Column] = ["supported", Column("against", is_text=True)]
    return make_table([*columns, *(f"{name} {UP}" for name in _OF_KINDS)], rows)


def _rate_cell(seen: Results) -> str:
    scored = sum(seen[outcome] for outcome in ("wins", "ties", "losses"))
    return f"{share(seen['rate'], seen['rate_ci95'])} ({scored}/{scored + seen['unscored']})"


def _weakest_sentences(results: Results) -> list[tuple[float, str, str]]:
    """Return the sentences of lowest token support: score, row, text."""
    scored = (
        (sentence["token_support"], str(detail["id"]), sentence["text"])
        for detail in results.get("details") or ()
        for sentence in detail.get("sentences", ())
        if sentence["token_support"] is not None
    )
    return heapq.nsmallest(_MOST_SENTENCES, scored)


def _sentences(model: str, weakest: Sequence[tuple[float, str, str]]) -> Section:
    columns: list[str | Column] = [
        Column("row", is_text=True),
        "token_support",
        Column("sentence", is_text=True),
    ]
    return Section(
        f"Sentences with the least support, by {model}",
        table=make_table(columns, [(row, f"{score:.3f}", text) for score, row, text in weakest]),
        notes=("All stand in the details of the results file.",),
        is_detail=True,
    )
