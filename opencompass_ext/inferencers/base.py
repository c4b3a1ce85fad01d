"""The one loop of all inferencers: rows, to prompts, to scores, to the predictions file."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.models.base import BaseModel
from opencompass_ext.models.options import check_positive
from opencompass_ext.predictions import PredictionsFile
from opencompass_ext.prompting import PromptTemplate, Rendered
from opencompass_ext.records import LabelledText, ScoredText
from opencompass_ext.version import __version__

Progress = Callable[[int, int, int], None]


class BaseInferencer(ABC):
    """Scores the rows of a dataset and keeps every finished one on disk.

    Args:
        model: Scores the texts.
        max_seq_len: Part of OpenCompass's call; the model's own ``max_seq_len`` holds.
        batch_size: Most rows per forward pass. None leaves it to the model's budget of tokens,
            which is faster when rows differ in length.
        output_json_filepath: Folder of the predictions file.
        output_json_filename: Its name, with or without ``.json``.
        save_every: Part of OpenCompass's call; every batch is saved as soon as it is finished.
        progress: Called with rows done, rows in all, and tokens read, after every batch.

    Raises:
        ConfigError: ``batch_size`` is not a whole number of at least 1.
    """

    mode = "ppl"

    def __init__(
        self,
        model: BaseModel,
        max_seq_len: int | None = None,
        batch_size: int | None = None,
        output_json_filepath: str = "./icl_inference_output",
        output_json_filename: str = "predictions",
        save_every: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        check_positive(batch_size=batch_size)
        self.model = model
        self.max_seq_len = max_seq_len
        self.batch_size = batch_size
        self.output_json_filepath = output_json_filepath
        self.output_json_filename = output_json_filename
        self.save_every = save_every
        self.progress = progress

    def inference(
        self,
        retriever: Any,
        ice_template: PromptTemplate | None = None,
        prompt_template: PromptTemplate | None = None,
        output_json_filepath: str | None = None,
        output_json_filename: str | None = None,
    ) -> list[dict[str, Any]]:
        """Score all test rows, write the predictions file, and return its rows.

        Rows that an earlier run finished are read and not scored again; when all are, the model is
        not even loaded.

        Raises:
            ConfigError: The templates do not fit the dataset.
            DataError: A row cannot be scored as asked.
        """
        texts = list(self._label_rows(retriever, ice_template, prompt_template))
        fingerprint = self._fingerprint()
        keys = [_row_key(text, fingerprint) for text in texts]
        folder = Path(output_json_filepath or self.output_json_filepath)
        name = (output_json_filename or self.output_json_filename).removesuffix(".json")
        with PredictionsFile(folder / f"{name}.json", keys) as predictions:
            if not predictions.is_complete:
                self._score_missing(texts, predictions)
            return [predictions.rows[i] for i in range(len(texts))]

    @abstractmethod
    def label(self, row: Mapping[str, Any], prompt: Rendered) -> LabelledText:
        """Return the prompt with the ranges to score, for one row of the dataset."""

    @abstractmethod
    def to_prediction(self, text: LabelledText, scored: ScoredText) -> dict[str, Any]:
        """Return what the predictions file holds for one row."""

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that change what a prediction holds."""
        return {}

    def scoring_options(self) -> dict[str, Any]:
        """Return the keyword arguments for the model's ``score_spans``."""
        return {"batch_rows": self.batch_size}

    def _label_rows(
        self,
        retriever: Any,
        ice_template: PromptTemplate | None,
        prompt_template: PromptTemplate | None,
    ) -> Iterator[LabelledText]:
        template = prompt_template or ice_template
        if template is None:
            raise ConfigError(
                "infer_cfg needs a 'prompt_template', such as dict(type=PromptTemplate, "
                "template='{text}')"
            )
        meta_template = getattr(self.model, "meta_template", None)
        examples = retriever.retrieve()
        for number, (row, indices) in enumerate(zip(retriever.dataset.test, examples, strict=True)):
            try:
                ice = retriever.generate_ice(indices, ice_template)
                yield self.label(row, template.render(row, ice, meta_template))
            except DataError as error:
                raise DataError(f"row {number}: {error}") from error

    def _score_missing(self, texts: list[LabelledText], predictions: PredictionsFile) -> None:
        tokens = 0
        self._report(predictions, tokens)
        for batch in self.model.score_spans(
            texts, finished=predictions.rows.keys(), **self.scoring_options()
        ):
            predictions.append({i: self.to_prediction(texts[i], batch[i]) for i in sorted(batch)})
            tokens += sum(scored.text_tokens for scored in batch.values())
            self._report(predictions, tokens)
        predictions.finish(
            {
                "opencompass_ext": __version__,
                "inferencer": {"type": type(self).__name__, **self.settings()},
                "model": {"identity": self.model.identity(), **self.model.provenance()},
            }
        )

    def _report(self, predictions: PredictionsFile, tokens: int) -> None:
        if self.progress is not None:
            self.progress(len(predictions.rows), len(predictions.row_keys), tokens)

    def _fingerprint(self) -> str:
        settings = json.dumps(self.settings(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256((self.model.scorer_fingerprint() + settings).encode()).hexdigest()


def _row_key(text: LabelledText, fingerprint: str) -> str:
    """Return 32 hex digits that change with the text, its spans, the model, or the settings."""
    spans = {name: sorted(ranges) for name, ranges in text.spans.items()}
    content = json.dumps([text.text, spans, fingerprint], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]
