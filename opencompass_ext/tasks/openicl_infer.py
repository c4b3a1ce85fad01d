"""Inference: from a dataset and a model to a predictions file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opencompass_ext.errors import DataError
from opencompass_ext.outputs import rows_path
from opencompass_ext.records import RowRange
from opencompass_ext.registry import INFERENCERS, PROMPT_TEMPLATES, RETRIEVERS, TASKS
from opencompass_ext.schema.signatures import constructor_keys
from opencompass_ext.tasks.base import BaseTask, ModelCache, ReportProgress, build_dataset

# Keys of a model that are defaults for the inferencer's arguments of the same name.
_INFERENCER_DEFAULTS = ("batch_size", "max_seq_len", "max_out_len", "min_out_len")


@TASKS.register_module()
class OpenICLInferTask(BaseTask):
    """Runs an inferencer; rows that an earlier run finished are not done again."""

    stage = "infer"

    @classmethod
    def may_cut(cls, dataset: Mapping[str, Any]) -> bool:
        """Return whether the inferencer can do some of the rows and leave the others."""
        inferencer = (dataset.get("infer_cfg") or {}).get("inferencer") or {}
        return "type" in inferencer and takes_rows(INFERENCERS.get(inferencer["type"]))

    def run(self, report: ReportProgress, models: ModelCache) -> str:
        """Build what the dataset's ``infer_cfg`` names and let the inferencer write predictions."""
        templates = {
            name: PROMPT_TEMPLATES.build(self.section("infer_cfg", name))
            for name in ("ice_template", "prompt_template")
            if self.dataset.get("infer_cfg", {}).get(name) is not None
        }
        retriever_cfg = self.section("infer_cfg", "retriever")
        inferencer_cfg = self.section("infer_cfg", "inferencer")
        dataset = build_dataset(self.dataset)
        retriever = RETRIEVERS.build(retriever_cfg, dataset=dataset)
        inferencer = self._build_inferencer(inferencer_cfg, models, report)
        path = self.run_folder.predictions(self.model["abbr"], self.dataset["abbr"])
        some_rows: dict[str, Any] = {}
        if self.rows is not None:
            self._check_total(len(dataset.test), self.rows)
            some_rows["rows"] = self.rows
        before = self._state(path)
        inferencer.inference(
            retriever,
            **templates,
            output_json_filepath=str(path.parent),
            output_json_filename=path.name,
            **some_rows,
        )
        return "reused" if self._state(path) == before else "done"

    def _check_total(self, count: int, rows: RowRange) -> None:
        if count != rows.total:
            raise DataError(
                f"dataset {self.dataset['abbr']!r} has {count} rows, and had {rows.total} when it "
                "was cut into parts: go on with -r, which cuts it anew"
            )

    def _state(self, path: Path) -> object:
        own = path if self.rows is None else rows_path(path, self.rows.start, self.rows.stop)
        states = [(p.stat().st_ino, p.stat().st_mtime_ns) for p in (path, own) if p.exists()]
        # Without a file before and after, the inferencer wrote none, which is no reuse.
        return states or object()

    def _build_inferencer(
        self, config: Mapping[str, Any], models: ModelCache, report: ReportProgress
    ) -> Any:
        taken = constructor_keys(INFERENCERS.get(config["type"]))
        extra = {
            key: self.model[key]
            for key in _INFERENCER_DEFAULTS
            if key in self.model and (taken.is_open or key in taken.known)
        }
        # Asked for by name: inferencers written for OpenCompass take any keyword and use few.
        if "progress" in taken.known:
            extra["progress"] = report
        return INFERENCERS.build(config, model=models.get(self.model), **extra)


def takes_rows(inferencer_class: type) -> bool:
    """Whether the ``inference`` of a class can be asked for some of the rows."""
    inference = getattr(inferencer_class, "inference", None)
    return inference is not None and "rows" in inspect.signature(inference).parameters
