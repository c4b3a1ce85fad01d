"""Evaluation: from a predictions file to a results file. Needs no model."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opencompass_ext.errors import DataError, IncompleteError, PredictionsError
from opencompass_ext.predictions.file import load_predictions, read_provenance
from opencompass_ext.predictions.final_file import changed_row
from opencompass_ext.records import TaskSpec
from opencompass_ext.redact import hide_secrets
from opencompass_ext.registry import EVALUATORS, TASKS
from opencompass_ext.schema.signatures import constructor_keys
from opencompass_ext.tasks.base import BaseTask, ModelCache, ReportProgress, build_dataset
from opencompass_ext.writing import write_json


@TASKS.register_module()
class OpenICLEvalTask(BaseTask):
    """Runs an evaluator over predictions and writes its metrics; never reuses old results.

    Args:
        spec: The task.
        dump_details: Whether the results keep what the evaluator says of single rows.
    """

    stage = "eval"

    def __init__(self, spec: TaskSpec, dump_details: bool = True) -> None:
        super().__init__(spec)
        self.dump_details = dump_details

    @classmethod
    def num_gpus(cls, spec: TaskSpec) -> int:
        """Return what the evaluators ask for: the model's own GPUs are not needed."""
        return max(int(d.get("eval_cfg", {}).get("num_gpus", 0)) for d in spec.datasets)

    @classmethod
    def worker_group(cls, spec: TaskSpec) -> str:
        """Any worker can evaluate any model, as long as it has the GPUs."""
        return f"eval with {cls.num_gpus(spec)} GPUs"

    def run(self, report: ReportProgress, models: ModelCache) -> str:
        """Call the evaluator with the columns that its ``score`` names, and write what it gives.

        Raises:
            IncompleteError: The results are written and say themselves that rows are missing.
        """
        evaluator_cfg = self.section("eval_cfg", "evaluator")
        evaluator = self._build_evaluator(evaluator_cfg, report)
        model_abbr, dataset_abbr = self.model["abbr"], self.dataset["abbr"]
        path = self.run_folder.predictions(model_abbr, dataset_abbr)
        rows = load_predictions(path)
        columns: dict[str, Any] = {**to_columns(rows)}
        if "prediction" in columns:
            columns.setdefault("predictions", columns["prediction"])
        n, k = self.dataset.get("n", 1), self.dataset.get("k", 1)
        parameters = inspect.signature(evaluator.score).parameters
        # Loading the dataset is worth its time only when the evaluator looks at it.
        original: Sequence[Any] = rows
        if not parameters.keys().isdisjoint(("references", "test_set")):
            original = self._test_set(path, len(rows))
            columns.update(references=self._references(original), test_set=original)
        result = evaluator.evaluate(
            k, n, original, **choose_columns(parameters, columns, str(path))
        )
        report(len(rows), len(rows), 0)
        provenance = read_provenance(path)
        for of_single_rows in ("row_keys", "data_keys"):
            provenance.pop(of_single_rows, None)
        write_json(
            self.run_folder.results(model_abbr, dataset_abbr),
            self._results(result, hide_secrets({**provenance, "evaluator": evaluator_cfg})),
        )
        if result.get("incomplete"):
            raise IncompleteError(result["incomplete"])
        return "done"

    def _build_evaluator(self, config: Mapping[str, Any], report: ReportProgress) -> Any:
        """Build the evaluator, with what it asks for by name of the place it works at."""
        given = {
            "transcript": self.run_folder.transcript(self.model["abbr"], self.dataset["abbr"]),
            "evidence": self.run_folder.evidence(self.model["abbr"], self.dataset["abbr"]),
            "progress": report,
        }
        taken = constructor_keys(EVALUATORS.get(config["type"])).known
        return EVALUATORS.build(config, **{name: given[name] for name in given if name in taken})

    def _test_set(self, path: Path, row_count: int) -> Any:
        dataset = build_dataset(self.dataset)
        test_set = dataset.test
        if len(test_set) != row_count:
            raise PredictionsError(
                f"dataset {self.dataset['abbr']!r} has {len(test_set)} rows, its predictions have "
                f"{row_count}: run inference again (-m infer -r)"
            )
        changed = changed_row(path, test_set, getattr(dataset, "label_columns", ()))
        if changed is not None:
            raise PredictionsError(
                f"row {changed} of dataset {self.dataset['abbr']!r} is not the row that {path} was "
                "made for: the data have changed since. Run inference again (-m infer -r), which "
                "does the changed rows only"
            )
        return test_set

    def _references(self, test_set: Any) -> list[Any] | None:
        output_column = self.dataset.get("reader_cfg", {}).get("output_column")
        return None if output_column is None else list(test_set[output_column])

    def _results(self, result: Any, provenance: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(result, Mapping):
            raise TypeError(f"the evaluator must return a dict of metrics, got {result!r}")
        if "error" in result:
            raise DataError(f"the evaluator reports: {result['error']}")
        metrics = without_non_finite(result)
        details = metrics.pop("details", None)
        if self.dump_details and details is not None:
            metrics["details"] = details
        return {**metrics, "provenance": provenance}


def to_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn rows into columns: all keys of all rows, None where a row lacks one.

    Example:
        >>> to_columns([{"ppl": 1.0}, {"ppl": None, "reason": "too_long"}])
        {'ppl': [1.0, None], 'reason': [None, 'too_long']}
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def choose_columns(
    parameters: Mapping[str, inspect.Parameter], columns: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return the columns that a ``score`` method with these parameters asks for.

    Raises:
        PredictionsError: A parameter without a default has no column.
    """
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(columns)
    named = {n: p for n, p in parameters.items() if p.kind is not p.VAR_POSITIONAL}
    for name, parameter in named.items():
        if name not in columns and parameter.default is parameter.empty:
            raise PredictionsError(
                f"the evaluator asks for the column {name!r}, which {source} does not have "
                f"(columns: {', '.join(columns) or 'none'})"
            )
    return {name: columns[name] for name in named if name in columns}


def without_non_finite(result: Mapping[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinite numbers by null; those of metrics get an entry in ``reasons``.

    Example:
        >>> without_non_finite({"accuracy": float("nan"), "total": 3})
        {'accuracy': None, 'total': 3, 'reasons': {'accuracy': 'non_finite'}}
    """
    cleaned = {name: _finite(value) for name, value in result.items()}
    lost = {
        name: "non_finite"
        for name, value in result.items()
        if value is not None and cleaned[name] is None
    }
    if lost:
        cleaned["reasons"] = {**lost, **(cleaned.get("reasons") or {})}
    return cleaned


def _finite(value: Any) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()  # a NumPy number
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
