"""What the inferencers that score answers to questions have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from opencompass_ext.datasets.rag_rows import is_blank, sources_of
from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.inferencers.answer_prompts import Asked, put_before, put_into_chat
from opencompass_ext.inferencers.columns import checked_text
from opencompass_ext.inferencers.scoring import LabelledRow, ScoringInferencer
from opencompass_ext.models.options import check_choice
from opencompass_ext.models.scoring import PREFIX_CHOICES
from opencompass_ext.prompting import Rendered
from opencompass_ext.records import LabelledText, Likelihood, likelihood_to_row

CONTEXTS = (None, "sources")
LONG_TEXTS = ("error", "window")
_COLUMNS = ("id", "question", "model", "answer")

Part = dict[str, Any]


class AnswerInferencer(ScoringInferencer):
    """Scores one answer to one question in each row ``{id, question, model, answer, ...}``.

    A ``prompt_template`` may say how the question is put, such as ``"Q: {question}"``; the answer
    follows it by itself. Without one the question stands as it is.

    A row without an answer, or without sources where they are asked for, is null with a reason.

    Args:
        chat_template: Put the question into the model's chat template, as the user's turn.
        context: ``"sources"`` puts the row's sources before the question.
        prefix_token: What stands before every text, never counted. ``"bos_or_eos"``: whichever the
            tokenizer defines first, so that the first token of an answer read alone is scored too.
        long_text: A text that is longer than the model is an ``"error"``, or read in a
            ``"window"`` after another. Cutting it off would compare two different answers.
        **kwargs: See ``BaseInferencer``.

    Raises:
        ConfigError: An option has a value it cannot have.
    """

    needs_template: ClassVar[bool] = False

    def __init__(
        self,
        *args: Any,
        chat_template: bool = False,
        context: str | None = None,
        prefix_token: str = "bos_or_eos",
        long_text: str = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if context not in CONTEXTS:
            raise ConfigError(f"context must be None or 'sources', got {context!r}")
        check_choice("prefix_token", prefix_token, PREFIX_CHOICES)
        check_choice("long_text", long_text, LONG_TEXTS)
        self.chat_template = chat_template
        self.context = context
        self.prefix_token = prefix_token
        self.long_text = long_text

    @classmethod
    def columns_to_insert(cls, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Return the column of the question; the answer follows the prompt by itself."""
        return ("question",)

    @abstractmethod
    def texts_of(self, asked: Asked, row: Mapping[str, Any]) -> Mapping[str, LabelledText]:
        """Return the texts to score, by name, for a row that has an answer.

        Args:
            asked: The question, and before it the sources where they are asked for.
            row: The row of the dataset.
        """

    @abstractmethod
    def parts_of(self, scored: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the likelihoods that the predictions file holds, by name.

        Args:
            scored: See ``ScoringInferencer.to_prediction``.
        """

    @abstractmethod
    def parts_without_answer(self, part: Part) -> dict[str, Any]:
        """Return what ``parts_of`` would, every likelihood being ``part``."""

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that change what a prediction holds."""
        return {
            "chat_template": self.chat_template,
            "context": self.context,
            "prefix_token": self.prefix_token,
            "long_text": self.long_text,
        }

    def scoring_options(self) -> dict[str, Any]:
        """Return the keyword arguments for the model's ``score_spans``."""
        return {
            **super().scoring_options(),
            "prefix_token": self.prefix_token,
            "long_text": self.long_text,
        }

    def row_name(self, number: int, row: Mapping[str, Any]) -> str:
        """Return number, question and system, for an error."""
        return f"row {number} (question {row.get('id')!r}, answer of {row.get('model')!r})"

    def key_content(self, prepared: LabelledRow) -> Any:
        """Return the texts, and the names that the prediction carries."""
        names = [prepared.row[name] for name in _COLUMNS]
        return [super().key_content(prepared), names]

    def label(self, row: Mapping[str, Any], prompt: Rendered | None) -> Mapping[str, LabelledText]:
        """Return the texts to score; none for a row without an answer."""
        _check_columns(row)
        if self._why_not(row) is not None:
            return {}
        asked = put_before(self._sources(row), _asked(row, prompt))
        return self.texts_of(asked, row)

    def to_prediction(
        self,
        row: Mapping[str, Any],
        texts: Mapping[str, LabelledText],
        scored: Mapping[str, Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Return names, likelihoods, the length of the answer, and why there are no likelihoods."""
        reason = self._why_not(row)
        if reason is None:
            parts = self.parts_of(scored)
        else:
            parts = self.parts_without_answer(_null_part(reason))
        return {
            "origin_prompt": next((text.text for text in texts.values()), row["question"]),
            "id": row["id"],
            "model": row["model"],
            **parts,
            "answer_chars": len(row["answer"]),
            "reason": reason,
        }

    def in_chat(self, asked: Asked) -> Asked:
        """Return the question in the chat template, if there is to be one."""
        return put_into_chat(self.model.chat_text, asked) if self.chat_template else asked

    def _sources(self, row: Mapping[str, Any]) -> list[str]:
        if self.context is None:
            return []
        return [source["text"] for source in sources_of(row) or () if not is_blank(source["text"])]

    def _why_not(self, row: Mapping[str, Any]) -> str | None:
        """Return why a row cannot be scored, in one word; None if it can."""
        if not row["answer"].strip():
            return "empty_answer"
        if not row["question"].strip():
            return "empty_question"
        if self.context is not None and not self._sources(row):
            return "no_sources"
        return None


def _check_columns(row: Mapping[str, Any]) -> None:
    for name in _COLUMNS:
        if name not in row:
            raise DataError(
                f"there is no column {name!r} (columns: {', '.join(map(str, row))}): a row needs "
                f"{', '.join(_COLUMNS)}, as PPLqaDataset makes them"
            )
    for name in ("question", "answer"):
        checked_text(name, row[name])


def _asked(row: Mapping[str, Any], prompt: Rendered | None) -> Asked:
    question = row["question"]
    if prompt is None:
        return Asked(question, ((0, len(question)),))
    if prompt.places_of("answer"):
        raise ConfigError(
            "the prompt_template inserts {answer}, which the inferencer puts behind it by itself: "
            "the template says how the question is put, such as '{question}'"
        )
    places = prompt.places_of("question")
    if not places:
        raise ConfigError(
            "the prompt_template must insert {question}: it says how the question is put"
        )
    return Asked(prompt.text, tuple((place.start, place.end) for place in places))


def _null_part(reason: str) -> Part:
    # No token has a likelihood; the reason is not that of a number gone wrong.
    return {**likelihood_to_row(Likelihood(float("nan"), 0), "whole"), "reason": reason}
