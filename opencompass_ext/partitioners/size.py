"""Tasks of like cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opencompass_ext.checks import check_least
from opencompass_ext.partitioners.base import BasePartitioner, Divisible, Piece
from opencompass_ext.partitioners.cutting import check_strategy, cut_evenly
from opencompass_ext.records import RowRange
from opencompass_ext.registry import INFERENCERS, PARTITIONERS

# A row of so many tokens counts as one, so that the values in OpenCompass's configs, which count
# rows, keep their meaning.
TOKENS_PER_ROW = 128


class _Costly(NamedTuple):
    piece: Piece
    cost: float


@PARTITIONERS.register_module()
class SizePartitioner(BasePartitioner):
    """Makes tasks that cost at most ``max_task_size`` each, the dearest first.

    The cost of a dataset is its estimated tokens / 128, so that it is OpenCompass's number of rows
    when these are of middle length; times the number of labels where each row is scored once per
    label, and times ``gen_task_coef`` where text is generated. A dataset over the limit is cut
    into equal parts.

    Args:
        max_task_size: Most that a task costs; a single row may cost more.
        gen_task_coef: What generating costs, by the cost of scoring.
        strategy: ``"heuristic"`` fills a task with as many datasets as fit; ``"split"`` makes a
            task of each dataset or part.
        dataset_size_path: File that remembers the sizes of datasets; None for
            ``<work_dir>/.cache/dataset_size.json``.
        keep_keys: Part of OpenCompass's call, see ``NaivePartitioner``.
        force_rebuild: Measure all datasets anew.

    Raises:
        ConfigError: An argument has a value it cannot have.
    """

    needs_sizes = True

    def __init__(
        self,
        max_task_size: int = 40000,
        gen_task_coef: int = 20,
        strategy: str = "heuristic",
        dataset_size_path: str | None = None,
        keep_keys: Sequence[str] | None = None,
        force_rebuild: bool = False,
    ) -> None:
        kind = type(self).__name__
        check_least(1, of=kind, max_task_size=max_task_size, gen_task_coef=gen_task_coef)
        check_strategy(kind, strategy)
        self.max_task_size = max_task_size
        self.gen_task_coef = gen_task_coef
        self.strategy = strategy
        self.dataset_size_path = dataset_size_path
        self.keep_keys = keep_keys
        self.force_rebuild = force_rebuild

    def split(self, datasets: Sequence[Divisible]) -> list[list[Piece]]:
        """Return the tasks of one model, the dearest first."""
        costly = [part for dataset in datasets for part in self._parts_of(dataset)]
        costly.sort(key=lambda part: -part.cost)  # stable: equal ones stay in config order
        if self.strategy == "split":
            return [[part.piece] for part in costly]
        tasks: list[list[Piece]] = []
        room = 0.0
        for piece, cost in costly:
            if not tasks or cost > room:
                tasks.append([])
                room = self.max_task_size
            tasks[-1].append(piece)
            room -= cost
        return tasks

    def _parts_of(self, dataset: Divisible) -> list[_Costly]:
        size = dataset.size
        if size is None:
            # It cannot be read, and its task will say so at once.
            return [_Costly(Piece(dataset.dataset), 0.0)]
        cost = size.tokens / TOKENS_PER_ROW * self._factor(dataset.dataset)
        count = min(-(-cost // self.max_task_size), size.rows)
        if count <= 1 or not dataset.may_cut:
            return [_Costly(Piece(dataset.dataset), cost)]
        parts = cut_evenly(RowRange(0, size.rows, size.rows), int(count))
        return [_Costly(Piece(dataset.dataset, rows), cost / count) for rows in parts]

    def _factor(self, dataset: Mapping[str, Any]) -> int:
        infer_cfg = dataset.get("infer_cfg") or {}
        inferencer = infer_cfg.get("inferencer") or {}
        if (
            "type" in inferencer
            and getattr(INFERENCERS.get(inferencer["type"]), "mode", "") == "gen"
        ):
            return self.gen_task_coef
        prompt = infer_cfg.get("prompt_template") or infer_cfg.get("ice_template") or {}
        template = prompt.get("template")
        if not isinstance(template, Mapping) or {"begin", "round", "end"} & set(template):
            return 1
        return max(1, len(template))
