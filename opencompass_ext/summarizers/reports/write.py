"""Make the reports that the results of a run name, print them, and write them to files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from opencompass_ext.errors import did_you_mean
from opencompass_ext.outputs import RunFolder
from opencompass_ext.summarizers.gather import Gathered
from opencompass_ext.summarizers.reports import REPORTS
from opencompass_ext.summarizers.reports.groundedness import (
    JUDGED,
    SUPPORTED,
    Pair,
    groundedness_section,
)
from opencompass_ext.summarizers.reports.render import print_report, to_markdown
from opencompass_ext.summarizers.reports.report import UnfitResults
from opencompass_ext.writing import atomic_writer


def write_reports(
    run_folder: RunFolder, found: Gathered, datasets: Sequence[str], console: Console
) -> None:
    """Make each report of each data set from the results of all models that name it.

    Args:
        run_folder: Where the results lie and the reports go.
        found: The results, to know who has any.
        datasets: Abbrs of the data sets.
        console: Where the reports are printed.
    """
    for dataset in datasets:
        for name, models in _wanted(found, dataset).items():
            if name not in REPORTS:
                known = did_you_mean(name, list(REPORTS))
                console.print(f"the results of {dataset} name the report {name!r}: {known}")
                continue
            results = {model: _read(run_folder, Pair(dataset, model)) for model in models}
            try:
                report = REPORTS[name](dataset, results)
                if name == JUDGED:
                    # A likelihood needs another kind of model, and so another data set's entry.
                    judged = {Pair(dataset, model): of for model, of in results.items()}
                    section = groundedness_section(judged, _supported(run_folder, found, datasets))
                    sections = () if section is None else (section,)
                    report = dataclasses.replace(report, sections=(*report.sections, *sections))
            except (UnfitResults, KeyError) as error:
                # Below what ``part_of`` looks for, files of another version may lack a key too.
                lacks = f"no {error}" if isinstance(error, KeyError) else str(error)
                console.print(
                    f"no report {name!r} of {dataset}: its results have {lacks}; evaluate again "
                    "(-m eval -r)"
                )
                continue
            print_report(report, console)
            path = run_folder.report(name, dataset)
            with atomic_writer(path) as file:
                file.write(to_markdown(report).encode("utf-8", "backslashreplace"))
            console.print(f"Report: {path}", soft_wrap=True)


def _read(run_folder: RunFolder, pair: Pair) -> dict[str, Any]:
    return json.loads(run_folder.results(pair.model, pair.dataset).read_text(encoding="utf-8"))


def _supported(
    run_folder: RunFolder, found: Gathered, datasets: Sequence[str]
) -> dict[Pair, dict[str, Any]]:
    """Return all results of source support in the run."""
    pairs = [
        Pair(dataset, model)
        for dataset in datasets
        for model in _wanted(found, dataset).get(SUPPORTED, ())
    ]
    return {pair: _read(run_folder, pair) for pair in pairs}


def _wanted(found: Gathered, dataset: str) -> dict[str, list[str]]:
    """Return report -> models whose results on the data set name it."""
    wanted: dict[str, list[str]] = {}
    for model, of_model in found.results.items():
        if report := of_model[dataset].report:
            wanted.setdefault(report, []).append(model)
    return wanted
