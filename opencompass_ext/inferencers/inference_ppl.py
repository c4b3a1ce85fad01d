"""Summed NLL and token count of the labelled characters of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.inferencers.columns import checked_text
from opencompass_ext.inferencers.scoring import ScoringInferencer
from opencompass_ext.prompting import Rendered
from opencompass_ext.records import LabelledText, Span
from opencompass_ext.registry import INFERENCERS

TEXT_NAME = "text"
SPAN_NAME = "label"


@INFERENCERS.register_module()
class InferencePPLOnlyInferencer(ScoringInferencer):
    """Writes ``ppl``, the summed NLL in nats, and ``token_len`` of the labelled part of each row.

    What is labelled is said in one of two ways:

    - by the data: the column ``label_column`` holds ``[[start, end, 1], ...]``, half-open character
      ranges of the column ``text_column``. They move along when a template puts text before it.
    - by the config: with ``labelled_columns=["answer"]`` all that the template rendered from the
      column ``answer`` is labelled, and the data needs no ranges.

    Args:
        labelled_columns: See above; None takes the ranges from the data.
        text_column: Column that the ranges refer to.
        label_column: Column that holds the ranges.
        token_details: Also keep NLL, rank and the likeliest alternatives of every counted token.
        **kwargs: See ``BaseInferencer``.
    """

    def __init__(
        self,
        *args: Any,
        labelled_columns: Sequence[str] | None = None,
        text_column: str = "text",
        label_column: str = "label",
        token_details: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(labelled_columns, str):
            raise ConfigError(
                f"labelled_columns must be a list of column names, such as [{labelled_columns!r}], "
                f"got the string {labelled_columns!r}"
            )
        self.labelled_columns = None if labelled_columns is None else list(labelled_columns)
        self.text_column = text_column
        self.label_column = label_column
        self.token_details = token_details

    @classmethod
    def columns_to_insert(cls, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Return the columns that are labelled, or the one that the data's ranges refer to."""
        labelled = arguments.get("labelled_columns")
        return [arguments.get("text_column", "text")] if labelled is None else labelled

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that change what a prediction holds."""
        return {"token_details": self.token_details}

    def scoring_options(self) -> dict[str, Any]:
        """Return the keyword arguments for the model's ``score_spans``."""
        return {**super().scoring_options(), "token_details": self.token_details}

    def label(self, row: Mapping[str, Any], prompt: Rendered | None) -> dict[str, LabelledText]:
        """Return the prompt with its labelled ranges."""
        assert prompt is not None
        if self.labelled_columns is None:
            spans = self._spans_of_label(row, prompt)
        else:
            spans = _spans_of_columns(self.labelled_columns, prompt)
        return {TEXT_NAME: LabelledText(prompt.text, {SPAN_NAME: spans})}

    def to_prediction(
        self,
        row: Mapping[str, Any],
        texts: Mapping[str, LabelledText],
        scored: Mapping[str, Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Return prompt, ``ppl``, ``token_len`` and what was left out, for one row."""
        likelihood = scored[TEXT_NAME]["spans"][SPAN_NAME]
        return {"origin_prompt": texts[TEXT_NAME].text, **likelihood}

    def _spans_of_label(self, row: Mapping[str, Any], prompt: Rendered) -> tuple[Span, ...]:
        """Return the ranges of the label column, moved to where the text column stands."""
        if self.label_column not in row:
            raise DataError(
                f"there is no column {self.label_column!r} with ranges to score (columns: "
                f"{', '.join(map(str, row))}); add it, or set labelled_columns=[...] on the "
                "inferencer to score all that a column renders to"
            )
        places = prompt.places_of(self.text_column)
        if len(places) != 1:
            raise ConfigError(
                f"the ranges in {self.label_column!r} refer to the column {self.text_column!r}, so "
                f"the template must insert it exactly once, and it does so {len(places)} times"
            )
        text = checked_text(self.text_column, row[self.text_column])
        label = row[self.label_column]
        if not isinstance(label, (list, tuple)) or not all(
            isinstance(span, (list, tuple)) and len(span) in (2, 3) for span in label
        ):
            raise DataError(
                f"the column {self.label_column!r} must hold [[start, end, 1], ...], got {label!r}"
            )
        # Checked before they are moved, so that an error shows the numbers of the data.
        spans = LabelledText(text, {SPAN_NAME: tuple((s[0], s[1]) for s in label)}).spans[SPAN_NAME]
        offset = places[0].start
        return tuple((offset + start, offset + end) for start, end in spans)


def _spans_of_columns(columns: Sequence[str], prompt: Rendered) -> tuple[Span, ...]:
    """Return the ranges that were rendered from the columns."""
    spans: list[Span] = []
    for column in columns:
        places = prompt.places_of(column)
        if not places:
            inserted = sorted({place.column for place in prompt.inserted})
            raise ConfigError(
                f"labelled_columns names {column!r}, which the template does not insert; it "
                f"inserts {', '.join(inserted) or 'no column'}"
            )
        spans.extend((place.start, place.end) for place in places)
    return tuple(spans)
