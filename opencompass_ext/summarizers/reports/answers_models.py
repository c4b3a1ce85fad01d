"""Several models that score the same answers: do they rank the systems alike?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.summarizers.reports.figures import difference, p_value, rank, share
from opencompass_ext.summarizers.reports.report import Section, make_table, part_of
from opencompass_ext.words import counted


def models_sections(
    analyses: Mapping[str, Mapping[str, Any]],
    unscored: Mapping[str, frozenset[tuple[str, str]]],
) -> Iterator[Section]:
    """Yield each model's ranking of the systems and how far models agree, also with people.

    Args:
        analyses: Abbr of the model -> what ``answer_results`` gives under ``analysis``.
        unscored: Abbr of the model -> the answers, as question and system, without a score of it.
    """
    places = {
        model: {
            system["system"]: system["rank"]
            for system in part_of(analysis, "systems", "systems")
            if system["rank"] is not None
        }
        for model, analysis in analyses.items()
    }
    systems = list(dict.fromkeys(name for of_model in places.values() for name in of_model))
    means = {
        name: math.fsum(of[name] for of in places.values()) / len(places)
        for name in systems
        if all(name in of for of in places.values())
    }
    systems.sort(key=lambda name: means.get(name, math.inf))
    rows = [
        [name, *(rank(of.get(name)) for of in places.values()), rank(means.get(name))]
        for name in systems
    ]
    notes = ["Mean rank: of the systems that every model ranks."]
    notes += _agreements(places, list(means))
    is_same = len(set(unscored.values())) == 1
    if not is_same:
        counts = ", ".join(f"{model} ({len(of)})" for model, of in unscored.items())
        notes.append(f"The models have scores of different answers; without one: {counts}.")
    yield Section(
        "Systems by each model",
        table=make_table(["system", *(f"rank: {model}" for model in places), "mean rank"], rows),
        notes=tuple(notes),
    )
    yield from _agreement_with_people(analyses, is_same)


def _agreement_with_people(
    analyses: Mapping[str, Mapping[str, Any]], is_same: bool
) -> Iterator[Section]:
    """Yield the agreement of each model; ``is_same``: whether all have scores of the same answers.

    Nothing is taken from a model for what another one lacks; that their votes differ is said.
    """
    rows, lost = [], {}
    for model, analysis in analyses.items():
        preferences = part_of(analysis, "preferences")
        if preferences is None:
            continue
        overall = preferences["votes"]["groups"][0]
        lost[model] = sum(overall["excluded"].values())
        own = overall["predictors"][0]
        versus = own["versus_length"]
        rows.append(
            [
                model,
                share(own["accuracy"], own["accuracy_ci95"]),
                difference(versus["value"], versus["ci95"]),
                p_value(versus["p"]),
                share(own["mcc"], own["mcc_ci95"]),
                str(overall["n"]),
            ]
        )
    if rows:
        headings = ["model", "accuracy ↑", "minus that of length", "p", "MCC ↑", "votes"]
        notes = []
        if not is_same and any(lost.values()):
            counts = ", ".join(f"{model} ({n})" for model, n in lost.items())
            notes.append(
                "The models are scored on different votes, so their figures cannot be compared; "
                f"votes on an answer without a score: {counts}."
            )
        yield Section(
            "Agreement with people's preferences by each model",
            table=make_table(headings, rows),
            notes=tuple(notes),
        )


def _agreements(places: Mapping[str, Mapping[str, float]], systems: Sequence[str]) -> list[str]:
    # Not above: the command line imports this module, and has no need of NumPy.
    from opencompass_ext.metrics.ranks import kendall_tau_b

    models = list(places)
    lines = []
    for i, one in enumerate(models):
        for other in models[i + 1 :]:
            tau = kendall_tau_b(
                [places[one][name] for name in systems], [places[other][name] for name in systems]
            )
            lines.append(
                f"{one} and {other}: tau-b {share(tau.value)}, p {p_value(tau.p)}, over "
                f"{counted(tau.n, 'system')}."
            )
    return lines
