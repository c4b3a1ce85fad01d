"""What an evaluator is: predictions in, metrics out."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from opencompass_ext.errors import ConfigError, PredictionsError, did_you_mean


class BaseEvaluator:
    """Base of the evaluators: a subclass computes metrics in ``score``.

    ``score`` names the columns it needs as its parameters, and those it can do without as
    parameters with a default. What it returns goes into the results file: numbers (or None) at the
    top level are metrics; ``<metric>_ci95`` is an interval, by the bootstrap unless ``interval``
    names another kind, such as ``"Wilson"``; ``reasons`` says why a metric is None;
    ``lower_is_better`` lists the metrics with that direction, ``details`` has one entry per row.
    """

    def score(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the metrics of one data set; the arguments are columns, one entry per row."""
        raise NotImplementedError

    def evaluate(
        self, k: int | Sequence[int], n: int, original_dataset: Sequence[Any] | None, **columns: Any
    ) -> dict[str, Any]:
        """Return ``score`` of the columns that it asks for. This is how a task calls an evaluator.

        Args:
            k: 1. OpenCompass's pass@k needs repeated answers.
            n: 1. A likelihood is the same in every run, so there is nothing to repeat.
            original_dataset: The test rows, which tell how many predictions there must be; None
                leaves that to the columns.
            **columns: Every column at hand, by name; those that ``score`` does not name are left.

        Raises:
            ConfigError: ``n`` or ``k`` is not 1.
            PredictionsError: A column that ``score`` needs is not there, or the columns and the
                data set differ in length.
        """
        if n != 1 or k not in (1, [1]):
            raise ConfigError(
                f"{type(self).__name__} scores one run of a data set: expected n=1 and k=1, "
                f"got n={n!r}, k={k!r}"
            )
        wanted = self._pick(columns)
        lengths = {name: len(column) for name, column in wanted.items() if column is not None}
        rows = (
            next(iter(lengths.values()), 0) if original_dataset is None else len(original_dataset)
        )
        for name, length in lengths.items():
            if length != rows:
                raise PredictionsError(
                    f"the column {name!r} has {length} entries for {rows} rows: "
                    f"run the inference again (-r)"
                )
        return self.score(**wanted)

    def _pick(self, columns: dict[str, Any]) -> dict[str, Any]:
        parameters = inspect.signature(self.score).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return columns
        missing = [p.name for p in parameters if p.default is p.empty and p.name not in columns]
        if missing:
            raise PredictionsError(
                f"{type(self).__name__} needs the column {missing[0]!r}, which the predictions "
                f"do not have: {did_you_mean(missing[0], list(columns))}"
            )
        return {p.name: columns[p.name] for p in parameters if p.name in columns}
