"""G-EVAL: which score a model gives an answer when it is asked for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opencompass_ext.errors import ConfigError
from opencompass_ext.inferencers.answer_prompts import (
    GEVAL_CRITERIA,
    Asked,
    geval_form,
    with_scores,
)
from opencompass_ext.inferencers.answers import AnswerInferencer, Part
from opencompass_ext.records import LabelledText
from opencompass_ext.registry import INFERENCERS

DEFAULT_SCALE = 5


@INFERENCERS.register_module()
class GEvalInferencer(AnswerInferencer):
    """Writes ``geval``: the NLL of each score from 1 to K behind a form with criteria.

    The texts of an answer differ in their last token only, so they cost about one forward pass.

    Source: Liu et al., G-EVAL: NLG Evaluation using GPT-4 with Better Human Alignment
    (arXiv 2303.16634). The words are ours; probabilities are read off, not sampled.

    Args:
        criteria: What makes an answer good.
        scale: K, from 2 to 9: two scores of which one begins with the other could not be told
            apart by their first token.
        **kwargs: See ``AnswerInferencer``.

    Raises:
        ConfigError: An option has a value it cannot have.
    """

    def __init__(
        self,
        *args: Any,
        criteria: str = GEVAL_CRITERIA,
        scale: int = DEFAULT_SCALE,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(scale, int) or isinstance(scale, bool) or not 2 <= scale <= 9:
            raise ConfigError(f"scale must be a whole number from 2 to 9, got {scale!r}")
        self.criteria = criteria
        self.scale = scale

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that change what a prediction holds."""
        return {**super().settings(), "criteria": self.criteria, "scale": self.scale}

    def texts_of(self, asked: Asked, row: Mapping[str, Any]) -> Mapping[str, LabelledText]:
        """Return the form with each score."""
        return geval_texts(self, self.criteria, self.scale, asked, row["answer"])

    def parts_of(self, scored: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the likelihood of each score."""
        return {"geval": geval_parts(self.scale, scored)}

    def parts_without_answer(self, part: Part) -> dict[str, Any]:
        """Return ``part`` in place of every likelihood."""
        return {"geval": {str(k): part for k in range(1, self.scale + 1)}}


def geval_texts(
    inferencer: AnswerInferencer, criteria: str, scale: int, asked: Asked, answer: str
) -> dict[str, LabelledText]:
    """Return the form with each score, named ``geval 1``, ``geval 2``, ..."""
    form = inferencer.in_chat(geval_form(criteria, asked, answer, scale)).text
    form += "Score:" if inferencer.chat_template else "\nScore:"
    return {f"geval {k}": text for k, text in with_scores(form, scale).items()}


def geval_parts(scale: int, scored: Mapping[str, Mapping[str, Any]]) -> dict[str, Part]:
    """Return the likelihood of each score, by score."""
    return {str(k): scored[f"geval {k}"]["spans"]["score"] for k in range(1, scale + 1)}
