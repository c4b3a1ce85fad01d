"""The table of a run: a row per metric of each data set, a column per model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from opencompass_ext.compat import our_name
from opencompass_ext.errors import ConfigError, did_you_mean
from opencompass_ext.outputs import TIME_FORMAT, RunFolder
from opencompass_ext.records import TaskOutcome
from opencompass_ext.registry import INFERENCERS, SUMMARIZERS
from opencompass_ext.summarizers import notes
from opencompass_ext.summarizers.gather import Gathered, gather
from opencompass_ext.summarizers.groups import read_group
from opencompass_ext.summarizers.layout import print_table, screen, to_csv, to_markdown, to_text
from opencompass_ext.summarizers.reports.write import write_reports
from opencompass_ext.summarizers.results import MISSING
from opencompass_ext.summarizers.table import Row, SummaryTable, empty_cell, make_cell
from opencompass_ext.writing import atomic_writer

_HEADING = "---"


@SUMMARIZERS.register_module()
class DefaultSummarizer:
    """Makes one table of all results, prints it, and writes it as text, CSV and Markdown.

    Args:
        dataset_abbrs: The rows, in order: the abbr of a data set or the name of a group, for its
            first metric, or ``[abbr, metric]``. A name that begins with ``---`` is a heading. None
            shows every metric of every data set, then the groups.
        summary_groups: Averages over data sets, see ``groups.read_group``.

    Raises:
        ConfigError: A group or a row is not written as it must be.
    """

    def __init__(
        self,
        dataset_abbrs: Sequence[str | Sequence[str]] | None = None,
        summary_groups: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.wanted = None if dataset_abbrs is None else [_read_row(r) for r in dataset_abbrs]
        self.groups = [read_group(config) for config in summary_groups or ()]

    def summarize(
        self,
        run_folder: RunFolder,
        models: Sequence[Mapping[str, Any]],
        datasets: Sequence[Mapping[str, Any]],
        failures: Sequence[TaskOutcome],
    ) -> str:
        """Print the table of a run and the reports that its results name, and write both to files.

        Args:
            run_folder: Where the results lie and the summary goes.
            models: Configs of the models, one column each.
            datasets: Configs of the data sets.
            failures: The tasks that did not end well.

        Returns:
            The table as plain text.
        """
        found = gather(run_folder, models, datasets, failures, self.groups)
        table = self._table(found, models, datasets, failures)
        print_table(table)
        time = datetime.now().strftime(TIME_FORMAT)
        text = to_text(table)
        for suffix, content in (
            ("txt", text),
            ("csv", to_csv(table)),
            ("md", to_markdown(table)),
        ):
            with atomic_writer(run_folder.summary(time, suffix)) as file:
                file.write(content.encode("utf-8", "backslashreplace"))
        print(f"Summary: {run_folder.summary(time, '{txt,csv,md}')}")
        write_reports(run_folder, found, [dataset["abbr"] for dataset in datasets], screen())
        return text

    def make_table(
        self,
        run_folder: RunFolder,
        models: Sequence[Mapping[str, Any]],
        datasets: Sequence[Mapping[str, Any]],
        failures: Sequence[TaskOutcome],
    ) -> SummaryTable:
        """Return the table of a run; the arguments are those of ``summarize``."""
        found = gather(run_folder, models, datasets, failures, self.groups)
        return self._table(found, models, datasets, failures)

    def _table(
        self,
        found: Gathered,
        models: Sequence[Mapping[str, Any]],
        datasets: Sequence[Mapping[str, Any]],
        failures: Sequence[TaskOutcome],
    ) -> SummaryTable:
        configs = {dataset["abbr"]: dataset for dataset in datasets}
        modes = {abbr: _mode(config) for abbr, config in configs.items()}
        for group in self.groups:
            of_members = {modes.get(name, MISSING) for name, _ in group.members}
            modes[group.name] = of_members.pop() if len(of_members) == 1 else "mixed"
        versions = {abbr: _version(config) for abbr, config in configs.items()}
        rows = [
            Row(
                dataset=name,
                version=versions.get(name, MISSING),
                metric=metric or MISSING,
                mode=modes.get(name, MISSING),
                cells=tuple(
                    empty_cell("") if _is_heading(name) else make_cell(results, metric or "")
                    for results in found.of(name)
                ),
            )
            for name, metric in self._rows(found, list(configs))
        ]
        return SummaryTable(
            models=tuple(model.get("summarizer_abbr") or model["abbr"] for model in models),
            rows=tuple(rows),
            notes=tuple(self._notes(found, list(configs))),
            failures=tuple(notes.failure_note(outcome) for outcome in failures),
        )

    def _rows(self, found: Gathered, datasets: Sequence[str]) -> list[tuple[str, str | None]]:
        if self.wanted is None:
            names = [*datasets, *(group.name for group in self.groups)]
            no_metric: Sequence[str | None] = [None]
            return [(n, m) for n in names for m in (found.metrics[n] or no_metric)]
        return [
            (name, metric or next(iter(found.metrics.get(name, ())), None))
            for name, metric in self.wanted
        ]

    def _notes(self, found: Gathered, datasets: Sequence[str]) -> Iterator[str]:
        pairs = [of_model[d] for of_model in found.results.values() for d in datasets]
        yield from (results.problem for results in pairs if results.problem)
        yield from notes.direction_notes(pairs)
        for group in self.groups:
            yield notes.group_note(group, found.metrics)
            yield from notes.missing_notes(group.name, found.results)
        yield from notes.count_notes(datasets, found.results)
        for name, metric in self.wanted or ():
            if name not in found.metrics and not _is_heading(name):
                hint = did_you_mean(name, list(found.metrics))
                yield f"dataset_abbrs names {name!r}, which is no data set or group here: {hint}"
            elif metric and found.metrics.get(name) and metric not in found.metrics[name]:
                hint = did_you_mean(metric, list(found.metrics[name]))
                yield f"dataset_abbrs asks for {metric!r} of {name!r}, which has none: {hint}"


def _read_row(row: str | Sequence[str]) -> tuple[str, str | None]:
    if isinstance(row, str):
        return row, None
    if isinstance(row, (list, tuple)) and len(row) == 2 and all(isinstance(p, str) for p in row):
        return row[0], row[1]
    raise ConfigError(
        f"dataset_abbrs: a row is the abbr of a dataset, or [abbr, metric]; got {row!r}"
    )


def _is_heading(name: str) -> bool:
    return name.startswith(_HEADING)


def _mode(dataset: Mapping[str, Any]) -> str:
    """Return what the inferencer's class says of how it asks the model, such as ``ppl``."""
    kind = dataset.get("infer_cfg", {}).get("inferencer", {}).get("type")
    try:
        return str(getattr(INFERENCERS.get(kind), "mode", MISSING))
    except ConfigError:
        return MISSING


def _version(dataset: Mapping[str, Any]) -> str:
    """Return 6 hex digits that change with the prompt and how the model is asked.

    A class named in full, or by its bare name, gives the same version.
    """
    if "infer_cfg" not in dataset:
        return MISSING
    canonical = json.dumps(_with_short_types(dataset["infer_cfg"]), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:6]


def _with_short_types(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: our_name(item) if key == "type" and isinstance(item, str) else item
            for key, item in ((k, _with_short_types(v)) for k, v in value.items())
        }
    return [_with_short_types(item) for item in value] if isinstance(value, list) else value
