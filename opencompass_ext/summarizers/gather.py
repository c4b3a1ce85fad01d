"""All results of a run, by model and data set or group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opencompass_ext.outputs import RunFolder
from opencompass_ext.records import TaskOutcome
from opencompass_ext.summarizers.groups import Group, combine
from opencompass_ext.summarizers.results import PairResults, read_results


@dataclass(frozen=True, slots=True)
class Gathered:
    """The results of a run.

    Attributes:
        results: Abbr of the model -> data set or group -> results.
        metrics: Data set or group -> metrics that any model has, the first one first.
    """

    results: Mapping[str, Mapping[str, PairResults]]
    metrics: Mapping[str, Sequence[str]]

    def of(self, name: str) -> list[PairResults]:
        """Return the results of each model on a data set or group."""
        return [results.get(name, PairResults()) for results in self.results.values()]


def gather(
    run_folder: RunFolder,
    models: Sequence[Mapping[str, Any]],
    datasets: Sequence[Mapping[str, Any]],
    failures: Sequence[TaskOutcome],
    groups: Sequence[Group],
) -> Gathered:
    """Read the results of every model on every data set, and combine them into the groups.

    A group may have an earlier group as a member.
    """
    failed = {
        (outcome.task.model["abbr"], dataset["abbr"]): outcome
        for outcome in failures
        for dataset in outcome.task.datasets
    }
    results = {
        model["abbr"]: {
            dataset["abbr"]: _of_pair(
                run_folder,
                model["abbr"],
                dataset["abbr"],
                failed.get((model["abbr"], dataset["abbr"])),
            )
            for dataset in datasets
        }
        for model in models
    }
    metrics: dict[str, Sequence[str]] = {}
    for dataset in datasets:
        pairs = [of_model[dataset["abbr"]] for of_model in results.values()]
        metrics[dataset["abbr"]] = list(dict.fromkeys(m for pair in pairs for m in pair.metrics))
    for group in groups:
        for of_model in results.values():
            of_model[group.name] = combine(group, of_model, metrics)
        metrics[group.name] = [group.metric]
    return Gathered(results, metrics)


def _of_pair(
    run_folder: RunFolder, model: str, dataset: str, failure: TaskOutcome | None
) -> PairResults:
    results = read_results(run_folder.results(model, dataset))
    if failure is None:
        return results or PairResults()
    # A task of several data sets may have finished some of them. One of a single data set has not,
    # so a results file is then of an earlier run and would pass off an old number as new.
    if results is not None and len(failure.task.datasets) > 1:
        return results
    # Results that say themselves what is missing, in the words that the task failed with, are new.
    if results is not None and failure.error == _on_one_line(results.incomplete):
        return results
    return PairResults(status=failure.status.upper())


def _on_one_line(message: str | None) -> str:
    return " ".join((message or "").split())
