"""GPTScore: how likely an answer is when a good answer to the question was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opencompass_ext.inferencers.answer_prompts import (
    GPTSCORE_INSTRUCTION,
    Asked,
    end_with,
    followed_by,
    gptscore_request,
)
from opencompass_ext.inferencers.answers import AnswerInferencer, Part
from opencompass_ext.records import LabelledText
from opencompass_ext.registry import INFERENCERS


@INFERENCERS.register_module()
class GPTScoreInferencer(AnswerInferencer):
    """Writes ``gptscore``: summed NLL and token count of the answer, given request and question.

    Source: Fu et al., GPTScore: Evaluate as You Desire (arXiv 2302.04166). The words are ours.

    Args:
        instruction: What kind of answer is asked for.
        **kwargs: See ``AnswerInferencer``.
    """

    def __init__(self, *args: Any, instruction: str = GPTSCORE_INSTRUCTION, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instruction = instruction

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that change what a prediction holds."""
        return {**super().settings(), "instruction": self.instruction}

    def texts_of(self, asked: Asked, row: Mapping[str, Any]) -> Mapping[str, LabelledText]:
        """Return the request followed by the answer."""
        return {"gptscore": gptscore_text(self, self.instruction, asked, row["answer"])}

    def parts_of(self, scored: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the likelihood of the answer."""
        return {"gptscore": scored["gptscore"]["spans"]["a"]}

    def parts_without_answer(self, part: Part) -> dict[str, Any]:
        """Return ``part`` in place of the likelihood."""
        return {"gptscore": part}


def gptscore_text(
    inferencer: AnswerInferencer, instruction: str, asked: Asked, answer: str
) -> LabelledText:
    """Return the request followed by the answer, whose span is called ``a``."""
    request = gptscore_request(instruction, asked)
    if inferencer.chat_template:
        request = inferencer.in_chat(request)
    else:
        request = end_with("\n\nAnswer:\n", request)
    text = followed_by(request, answer, joint_tokenization=False, names=("q", "a"))
    return LabelledText(text.text, {"a": text.spans["a"]}, text.cuts)
