"""The model's answer to each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.errors import ConfigError
from opencompass_ext.inferencers.base import BaseInferencer
from opencompass_ext.models.options import check_positive, check_stop_words
from opencompass_ext.predictions.file import PredictionsFile
from opencompass_ext.prompting import PromptTemplate
from opencompass_ext.records import GeneratedText, GenerationRequest
from opencompass_ext.registry import INFERENCERS


@INFERENCERS.register_module()
class GenInferencer(BaseInferencer):
    """Writes ``prediction``, the text that the model answers to the prompt of each row.

    Beside it: ``input_tokens``, ``output_tokens`` and ``finish_reason`` (``"stop"``, or
    ``"length"`` when ``max_out_len`` cut the answer), and ``sources`` from a system that says what
    it retrieved.

    Args:
        model: Answers.
        max_out_len: Most tokens of an answer.
        min_out_len: Fewest tokens of an answer.
        stopping_criteria: An answer ends before the first of these texts.
        **kwargs: See ``BaseInferencer``.

    Raises:
        ConfigError: A length is no whole number of at least 1, or nothing says how long an answer
            may be.
    """

    mode = "gen"

    def __init__(
        self,
        *args: Any,
        max_out_len: int | None = None,
        min_out_len: int | None = None,
        stopping_criteria: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_positive(max_out_len=max_out_len, min_out_len=min_out_len)
        if max_out_len is None:
            raise ConfigError(
                "GenInferencer needs max_out_len, the most tokens of an answer: set it on the "
                "model or on the inferencer"
            )
        check_stop_words(stopping_criteria=stopping_criteria)
        if min_out_len is not None and min_out_len > max_out_len:
            raise ConfigError(
                f"min_out_len={min_out_len} is more than max_out_len={max_out_len}: no answer can "
                "have both"
            )
        self.max_out_len = max_out_len
        self.min_out_len = min_out_len
        self.stopping_criteria = list(stopping_criteria)

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that change an answer, the model's among them."""
        return {
            "max_out_len": self.max_out_len,
            "min_out_len": self.min_out_len,
            "stopping_criteria": self.stopping_criteria,
            **self.model.generation_settings(),
        }

    def prepare(
        self, row: Mapping[str, Any], template: PromptTemplate | None, ice: str
    ) -> GenerationRequest:
        """Return the row's prompt, as a chat if that is what the model takes."""
        assert template is not None
        if self.model.takes_messages:
            return GenerationRequest(template.messages(row, ice), row)
        return GenerationRequest(self.render(row, template, ice).text, row)

    def key_content(self, prepared: GenerationRequest) -> Any:
        """Return the prompt, and what else of the row the model looks at."""
        return [prepared.prompt, {name: prepared.row.get(name) for name in self.model.row_fields}]

    def complete(self, rows: Sequence[GenerationRequest], predictions: PredictionsFile) -> None:
        """Let the model answer what is missing."""
        tokens = 0
        for batch in self.model.generate_texts(
            rows,
            max_out_len=self.max_out_len,
            min_out_len=self.min_out_len,
            stop_words=self.stopping_criteria,
            finished=predictions.rows.keys(),
            batch_rows=self.batch_size,
        ):
            predictions.append({i: _to_prediction(rows[i], batch[i]) for i in sorted(batch)})
            tokens += sum(_count_tokens(answer) for answer in batch.values())
            self.report(predictions, tokens)


def _to_prediction(request: GenerationRequest, answer: GeneratedText) -> dict[str, Any]:
    prompt = request.prompt
    row: dict[str, Any] = {
        "origin_prompt": prompt if isinstance(prompt, str) else [dict(turn) for turn in prompt],
        "prediction": answer.text,
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "finish_reason": answer.finish_reason,
    }
    if answer.sources is not None:
        row["sources"] = answer.sources
    return row


def _count_tokens(answer: GeneratedText) -> int:
    return (answer.input_tokens or 0) + (answer.output_tokens or 0)
