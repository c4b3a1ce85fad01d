"""Inferencers whose rows are labelled texts: one or several for each row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opencompass_ext.errors import DataError, TextError
from opencompass_ext.inferencers.base import BaseInferencer
from opencompass_ext.predictions.file import PredictionsFile
from opencompass_ext.prompting import PromptTemplate, Rendered
from opencompass_ext.records import LabelledText, ScoredText, likelihood_to_row


class LabelledRow(NamedTuple):
    """A row of the dataset and its texts by name."""

    row: Mapping[str, Any]
    texts: Mapping[str, LabelledText]


class ScoringInferencer(BaseInferencer):
    """Scores the texts of each row with ``score_spans``.

    The texts of all rows are scored together, in the order that suits the model, so those of one
    row rarely come at the same time. Each is kept on disk as soon as it is scored.
    """

    mode = "ppl"

    @abstractmethod
    def label(self, row: Mapping[str, Any], prompt: Rendered | None) -> Mapping[str, LabelledText]:
        """Return the texts to score for one row of the dataset, by name; there may be none.

        Args:
            row: The row.
            prompt: The rendered template; None without one.
        """

    @abstractmethod
    def to_prediction(
        self,
        row: Mapping[str, Any],
        texts: Mapping[str, LabelledText],
        scored: Mapping[str, Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Return what the predictions file holds for one row.

        Args:
            row: The row of the dataset.
            texts: What ``label`` returned for it.
            scored: For each name of ``texts`` the scores as ``scored_to_json`` writes them.
        """

    def scoring_options(self) -> dict[str, Any]:
        """Return the keyword arguments for the model's ``score_spans``."""
        return {"batch_rows": self.batch_size}

    def prepare(
        self, row: Mapping[str, Any], template: PromptTemplate | None, ice: str
    ) -> LabelledRow:
        """Return the row with its texts."""
        prompt = None if template is None else self.render(row, template, ice)
        return LabelledRow(row, self.label(row, prompt))

    def key_content(self, prepared: LabelledRow) -> Any:
        """Return texts, spans and cuts."""
        return {
            name: [text.text, {n: sorted(s) for n, s in text.spans.items()}, text.cuts]
            for name, text in prepared.texts.items()
        }

    def complete(self, rows: Sequence[LabelledRow], predictions: PredictionsFile) -> None:
        """Score the texts that are missing, and write rows and parts of rows."""
        places = [(i, name) for i, row in enumerate(rows) for name in row.texts]
        texts = [rows[i].texts[name] for i, name in places]
        finished = {
            index
            for index, (i, name) in enumerate(places)
            if i in predictions.rows or name in predictions.parts.get(i, {})
        }
        # A run may have been cut off between the last part of a row and the row itself; and a row
        # without texts is whole from the start.
        without_texts = [i for i, row in enumerate(rows) if not row.texts]
        todo = [i for i in (*predictions.parts, *without_texts) if i not in predictions.rows]
        self._append(rows, predictions, {i: {} for i in todo})
        tokens, texts_done = 0, len(finished)
        try:
            for batch in self.model.score_spans(texts, finished=finished, **self.scoring_options()):
                parts: dict[int, dict[str, Any]] = {}
                for index in sorted(batch):
                    i, name = places[index]
                    parts.setdefault(i, {})[name] = scored_to_json(batch[index])
                self._append(rows, predictions, parts)
                tokens += sum(scored.text_tokens for scored in batch.values())
                texts_done += len(batch)
                # The texts of one row are far apart: for long, none is whole and many nearly are.
                self.report(predictions, tokens, len(rows) * texts_done // len(texts))
        except TextError as error:
            i, name = places[error.index]
            which = "" if len(rows[i].texts) == 1 else f", text {name!r}"
            name_of_row = self.row_name(predictions.first_row + i, rows[i].row)
            raise DataError(f"{name_of_row}{which}: {error.problem}") from error

    def _append(
        self,
        rows: Sequence[LabelledRow],
        predictions: PredictionsFile,
        new_parts: Mapping[int, dict[str, Any]],
    ) -> None:
        """Write parts of rows, and the rows that are whole with them."""
        whole: dict[int, dict[str, Any]] = {}
        parts: dict[int, dict[str, Any]] = {}
        for i, new in new_parts.items():
            scored = {**predictions.parts.get(i, {}), **new}
            row, texts = rows[i]
            if len(scored) == len(texts):
                whole[i] = self.to_prediction(row, texts, {name: scored[name] for name in texts})
            elif new:
                parts[i] = new
        if whole or parts:
            predictions.append(whole, parts)


def scored_to_json(scored: ScoredText) -> dict[str, Any]:
    """Return scores as plain JSON values: how they stand on disk until their row is whole.

    Example:
        >>> from opencompass_ext.records import Likelihood
        >>> scored = ScoredText({"answer": Likelihood(nll=2.0, token_len=4)}, text_tokens=9)
        >>> scored_to_json(scored)["spans"]["answer"]["ppl"]
        2.0
    """
    return {
        "spans": {
            name: likelihood_to_row(likelihood, scored.long_text)
            for name, likelihood in scored.spans.items()
        },
        "text_tokens": int(scored.text_tokens),
        "long_text": scored.long_text,
    }
