"""The report on the sanity battery: which kind of answer each score likes best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.summarizers.reports.answers_agreement import partial_notes, score_label
from opencompass_ext.summarizers.reports.figures import amount, share
from opencompass_ext.summarizers.reports.report import Column, Report, Section, make_table, part_of
from opencompass_ext.words import counted, listed


def sanity_report(dataset: str, results: Mapping[str, Mapping[str, Any]]) -> Report:
    """Return the report on what one or several models make of the sanity battery.

    Args:
        dataset: Abbr of the data set.
        results: Abbr of the model -> its results, as ``PPLqaSanityEvaluator`` makes them.

    Raises:
        UnfitResults: A results file is not such.
    """
    sections: list[Section] = []
    for model, of_model in results.items():
        suffix = f" · {model}" if len(results) > 1 else ""
        sections += _of_model(part_of(of_model, "analysis"), suffix)
    models = next(iter(results)) if len(results) == 1 else f"{len(results)} models"
    return Report(f"PPLqa sanity battery: {dataset}, {models}", tuple(sections))


def _of_model(analysis: Mapping[str, Any], suffix: str) -> Iterator[Section]:
    groups = part_of(analysis, "groups")
    kinds, order = part_of(analysis, "kinds"), part_of(analysis, "order")
    yield Section(f"What it says{suffix}", tuple(_statement(groups[0], kinds, order)))
    of_primary = [(_group_name(g), g["predictors"][0], g["questions"]) for g in groups]
    yield Section(
        f"Which kind of answer has the best pplqa{suffix}",
        table=_liking_table("questions", of_primary, kinds, order),
        notes=(*_notes(groups[0], kinds, order),),
    )
    yield Section(
        f"pplqa over the length of the answer{suffix}",
        table=_line_table(of_primary),
        notes=("Line of least squares through all answers; R² is the share of the variance.",),
    )
    for group in groups:
        yield Section(
            f"Every score, {_group_name(group)}{suffix}",
            table=_liking_table(
                "score",
                [(score_label(r), r, group["questions"]) for r in group["predictors"]],
                kinds,
                order,
            ),
            notes=tuple(partial_notes(group, "question")),
            is_detail=True,
        )
        if part_of(group, "partial"):
            yield Section(
                f"Scores that lack some questions, {_group_name(group)}{suffix}",
                table=_liking_table("score", list(_partial(group)), kinds, order),
                notes=("Each beside the others on the questions for which it has a value.",),
                is_detail=True,
            )


def _partial(group: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    for block in group["partial"]:
        for place, record in enumerate(block["predictors"]):
            where = ", on the same questions" if place else ""
            yield f"{score_label(record)}{where}", record, block["questions"]


def _statement(
    group: Mapping[str, Any], kinds: Sequence[str], order: Sequence[str]
) -> Iterator[str]:
    own, total = group["predictors"][0], group["questions"]
    if not total:
        why = f" ({listed(group['excluded'])})" if group["excluded"] else ""
        yield f"No question has a pplqa of every kind of answer{why}."
        return
    winner = max(own["best"], key=lambda kind: own["best"][kind])
    yield (
        f"On {counted(total, 'question')} the {order[0]} answer has the best pplqa in "
        f"{share(own['correct_best'], own['correct_best_ci95'])} (chance {1 / len(kinds):.3f}); "
        f"most often it is {winner}, in {share(own['best'][winner])}."
    )
    yield (
        f"{' < '.join(order)} holds strictly in "
        f"{share(own['strict_order'], own['strict_order_ci95'])} "
        f"(chance {_chance_of_order(order):.3f}), "
        f"{_against_chance(own['strict_order_ci95'], _chance_of_order(order))}."
    )
    line = own["lines"]["answer_tokens"]
    if line is not None:
        yield (
            f"A line over the length in tokens accounts for {share(line['r_squared'])} of the "
            "variance of pplqa."
        )


def _notes(group: Mapping[str, Any], kinds: Sequence[str], order: Sequence[str]) -> Iterator[str]:
    yield (
        "A kind: share of the questions in which it scores best; equal scores share. In order: "
        f"{' < '.join(order)}, strictly. Beats: the {order[0]} answer scores strictly better than "
        "that kind. Brackets: Wilson's 95 % interval."
    )
    yield (
        f"Chance: {1 / len(kinds):.3f} for each kind, {_chance_of_order(order):.3f} in order, "
        "0.500 to beat one."
    )
    if group["excluded"]:
        yield f"Questions left out: {listed(group['excluded'])}."


def _liking_table(
    heading: str,
    named: Sequence[tuple[str, Mapping[str, Any], int]],
    kinds: Sequence[str],
    order: Sequence[str],
) -> Any:
    rows = []
    for name, record, questions in named:
        beats = [record["correct_beats"].get(kind) for kind in order[1:]]
        rows.append(
            [
                name,
                str(questions),
                *(share(record["best"].get(kind)) for kind in kinds),
                share(record["strict_order"], record["strict_order_ci95"]),
                *("-" if b is None else share(b["share"], b["ci95"]) for b in beats),
            ]
        )
    headings = ["n", *kinds, "in order ↑", *(f"beats {kind} ↑" for kind in order[1:])]
    return make_table([Column(heading, is_text=True), *headings], rows)


def _line_table(named: Sequence[tuple[str, Mapping[str, Any], int]]) -> Any:
    rows = []
    for name, record, _ in named:
        for length, meaning in (("answer_tokens", "tokens"), ("answer_chars", "characters")):
            line = record["lines"][length]
            cells = ["-"] * 4 if line is None else _line_cells(line)
            rows.append([name, meaning, *cells])
    columns = [Column("questions", is_text=True), Column("length in", is_text=True)]
    return make_table([*columns, "slope", "intercept", "R²", "answers"], rows)


def _line_cells(line: Mapping[str, Any]) -> list[str]:
    return [
        amount(line["slope"]),
        amount(line["intercept"]),
        share(line["r_squared"]),
        str(line["n"]),
    ]


def _against_chance(interval: Sequence[float] | None, chance: float) -> str:
    if interval is not None and interval[0] > chance:
        return "better than chance"
    if interval is not None and interval[1] < chance:
        return "worse than chance"
    return "which may be chance"


def _group_name(group: Mapping[str, Any]) -> str:
    return group["category"] or "all"


def _chance_of_order(order: Sequence[str]) -> float:
    chance = 1.0
    for place in range(2, len(order) + 1):
        chance /= place
    return chance
