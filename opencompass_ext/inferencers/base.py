"""The one loop of all inferencers: rows, to work for a model, to the predictions file."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.models.base import BaseModel
from opencompass_ext.models.options import check_positive
from opencompass_ext.predictions.file import PredictionsFile, data_key
from opencompass_ext.prompting import PromptTemplate, Rendered
from opencompass_ext.records import RowRange
from opencompass_ext.version import __version__

Progress = Callable[[int, int, int], None]


class BaseInferencer(ABC):
    """Lets a model work on the rows of a dataset and keeps every finished one on disk.

    A subclass says what one row is for the model (``prepare``) and lets the model do what is
    missing (``complete``). Whatever ``prepare`` returns decides, with the model and the settings,
    whether a row of an earlier run is still right.

    Args:
        model: Does the work.
        max_seq_len: Part of OpenCompass's call; the model's own ``max_seq_len`` holds.
        batch_size: Most rows per forward pass. None leaves it to the model's budget of tokens,
            which is faster when rows differ in length.
        output_json_filepath: Folder of the predictions file.
        output_json_filename: Its name, with or without ``.json``.
        save_every: Part of OpenCompass's call; every batch is saved as soon as it is finished.
        progress: Called with rows done, rows in all, and tokens read, after every batch.

    Attributes:
        needs_template: Whether ``infer_cfg`` must have a ``prompt_template``.

    Raises:
        ConfigError: ``batch_size`` is not a whole number of at least 1.
    """

    mode: ClassVar[str]
    needs_template: ClassVar[bool] = True

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

    @classmethod
    def columns_to_insert(cls, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Return the columns that a template, where there is one, must insert.

        So that a config which leaves one out is refused before anything runs.

        Args:
            arguments: Those of the constructor that the config gives.
        """
        return ()

    def inference(
        self,
        retriever: Any,
        ice_template: PromptTemplate | None = None,
        prompt_template: PromptTemplate | None = None,
        output_json_filepath: str | None = None,
        output_json_filename: str | None = None,
        rows: RowRange | None = None,
    ) -> list[dict[str, Any]]:
        """Do the test rows, write the predictions file, and return its rows.

        Rows that an earlier run finished are read and not done again; when all are, the model is
        not even loaded.

        Args:
            retriever: Has the dataset, and chooses in-context examples.
            ice_template: How an example is written.
            prompt_template: How a row is written.
            output_json_filepath: Instead of the folder given to the constructor.
            output_json_filename: Instead of the name given to the constructor.
            rows: Do these rows only, for a part of the predictions file; None for all.

        Raises:
            ConfigError: The templates do not fit the dataset.
            DataError: A row cannot be done as asked.
        """
        template = self._template(ice_template, prompt_template)
        numbered = _numbered_rows(retriever, rows)
        label_columns = getattr(retriever.dataset, "label_columns", ())
        prepared, keys, data_keys = [], [], []
        fingerprint = self._fingerprint()
        for number, row, indices in numbered:
            try:
                ice = retriever.generate_ice(indices, ice_template)
                prepared.append(self.prepare(row, template, ice))
            except DataError as error:
                raise DataError(f"{self.row_name(number, row)}: {error}") from error
            keys.append(_row_key(self.key_content(prepared[-1]), fingerprint))
            data_keys.append(data_key(row, label_columns))
        folder = Path(output_json_filepath or self.output_json_filepath)
        name = (output_json_filename or self.output_json_filename).removesuffix(".json")
        with PredictionsFile(folder / f"{name}.json", keys, rows, data_keys) as predictions:
            if not predictions.is_complete:
                self.report(predictions, 0)
                made_by = None
                if len(predictions.rows) == len(prepared):
                    # Known from an earlier run; the model, loaded for nothing, may be out of reach.
                    made_by = predictions.made_by()
                else:
                    self.complete(prepared, predictions)
                predictions.finish(made_by or self._made_by())
            return [predictions.rows[i] for i in range(len(prepared))]

    def _made_by(self) -> dict[str, Any]:
        return {
            "opencompass_ext": __version__,
            "inferencer": {"type": type(self).__name__, **self.settings()},
            "model": {"identity": self.model.identity(), **self.model.provenance()},
        }

    @abstractmethod
    def prepare(self, row: Mapping[str, Any], template: PromptTemplate | None, ice: str) -> Any:
        """Return what the model is to do for one row of the dataset."""

    @abstractmethod
    def key_content(self, prepared: Any) -> Any:
        """Return what of ``prepare``'s result decides the prediction, as plain JSON values."""

    @abstractmethod
    def complete(self, rows: Sequence[Any], predictions: PredictionsFile) -> None:
        """Let the model do the rows that ``predictions`` lacks, and append them as they come.

        Args:
            rows: What ``prepare`` returned for each row.
            predictions: Where finished rows stand, and where new ones go.
        """

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that change what a prediction holds."""
        return {}

    def row_name(self, number: int, row: Mapping[str, Any]) -> str:
        """Return what an error calls a row of the dataset."""
        return f"row {number}"

    def report(
        self, predictions: PredictionsFile, tokens: int, rows_done: int | None = None
    ) -> None:
        """Tell whoever watches how far the work has come; may raise to break it off.

        Args:
            predictions: Where finished rows stand.
            tokens: Tokens read so far.
            rows_done: What all finished work is worth in rows; None for the finished rows.
        """
        if self.progress is not None:
            done = len(predictions.rows) if rows_done is None else rows_done
            self.progress(done, len(predictions.row_keys), tokens)

    def render(self, row: Mapping[str, Any], template: PromptTemplate, ice: str) -> Rendered:
        """Return the prompt of a row as text."""
        return template.render(row, ice, getattr(self.model, "meta_template", None))

    def _template(
        self, ice_template: PromptTemplate | None, prompt_template: PromptTemplate | None
    ) -> PromptTemplate | None:
        template = prompt_template or ice_template
        if template is None and self.needs_template:
            raise ConfigError(
                "infer_cfg needs a 'prompt_template', such as dict(type=PromptTemplate, "
                "template='{text}')"
            )
        return template

    def _fingerprint(self) -> str:
        settings = json.dumps(self.settings(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256((self.model.scorer_fingerprint() + settings).encode()).hexdigest()


def _numbered_rows(
    retriever: Any, rows: RowRange | None
) -> Iterator[tuple[int, Mapping[str, Any], Sequence[int]]]:
    """Yield number, row and indices of the in-context examples of the test rows that are meant."""
    test = retriever.dataset.test
    # Of all rows, whichever are meant: a retriever may draw them one after another.
    examples = retriever.retrieve()
    if rows is None:
        for number, (row, indices) in enumerate(zip(test, examples, strict=True)):
            yield number, row, indices
    else:
        for number in range(rows.start, rows.stop):
            yield number, test[number], examples[number]


def _row_key(content: Any, fingerprint: str) -> str:
    """Return 32 hex digits that change with the row, the model, or the settings."""
    canonical = json.dumps([content, fingerprint], sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]
