"""Several models that score the same answers: do they rank the systems alike?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.summarizers.reports.figures import p_value, rank, share
from opencompass_ext.summarizers.reports.report import Section, make_table, part_of


def models_section(analyses: Mapping[str, Mapping[str, Any]]) -> Section:
    """Return each model's ranking of the systems, the mean rank, and how far models agree.

    Args:
        analyses: Abbr of the model -> what ``answer_results`` gives under ``analysis``.
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
    return Section(
        "Systems by each model",
        table=make_table(["system", *(f"rank: {model}" for model in places), "mean rank"], rows),
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
                f"{one} and {other}: tau-b {share(tau.value)}, p {p_value(tau.p)}, over {tau.n} "
                "systems."
            )
    return lines
