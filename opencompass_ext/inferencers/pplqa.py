"""PPLqa: the likelihood of question and answer together, and of the answer alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.errors import ConfigError
from opencompass_ext.inferencers.answer_prompts import (
    GEVAL_CRITERIA,
    GPTSCORE_INSTRUCTION,
    Asked,
    end_with,
    followed_by,
    put_before,
)
from opencompass_ext.inferencers.answers import AnswerInferencer, Part
from opencompass_ext.inferencers.geval import DEFAULT_SCALE, geval_parts, geval_texts
from opencompass_ext.inferencers.gptscore import gptscore_text
from opencompass_ext.records import LabelledText
from opencompass_ext.registry import INFERENCERS

BASELINES = ("gptscore", "geval")
_SUMS = (
    *("ppl", "token_len", "byte_len"),
    *("unscored_tokens", "truncated_tokens", "unaligned_chars"),
)


@INFERENCERS.register_module()
class PPLqaInferencer(AnswerInferencer):
    """Writes three likelihoods of every answer: ``q``, ``a_given_q`` and ``a``.

    ``q`` and ``a_given_q`` are the question (with the separator) and the answer behind it, from one
    reading of both; ``a`` is the answer read alone. Each holds ``ppl``, the summed NLL in nats, and
    ``token_len``, so every variant of the metric is arithmetic on them. The answers to one question
    share the reading of the question, and equal texts are read once.

    Source: arXiv 2411.15320. Where it is silent: question and answer are tokenised apart, so that
    the answer has the same tokens in both readings.

    Args:
        separator: Stands between question and answer and counts with the question. In a chat
            template the end of the turn takes its place.
        joint_tokenization: Let tokens stretch over the border of question and answer. Such a token
            counts with the answer, and the answer's tokens may differ between the two readings.
        instruction: Text put before the question (and the sources). It is read, and not counted.
        baselines: Rivals to score in the same run, of ``"gptscore"`` and ``"geval"``, with the
            words that their own inferencers have by default.
        **kwargs: See ``AnswerInferencer``.

    Raises:
        ConfigError: An option has a value it cannot have.
    """

    def __init__(
        self,
        *args: Any,
        separator: str = "\n",
        joint_tokenization: bool = False,
        instruction: str | None = None,
        baselines: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(baselines, str) or not set(baselines) <= set(BASELINES):
            raise ConfigError(
                f"baselines must be a list of {' and '.join(map(repr, BASELINES))}, got "
                f"{baselines!r}"
            )
        if instruction is not None and not instruction.strip():
            raise ConfigError("instruction must be a text that is not blank, or None for none")
        self.separator = separator
        self.joint_tokenization = joint_tokenization
        self.instruction = instruction
        self.baselines = tuple(name for name in BASELINES if name in baselines)

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that change what a prediction holds."""
        words: dict[str, Any] = {
            "gptscore": {"instruction": GPTSCORE_INSTRUCTION},
            "geval": {"criteria": GEVAL_CRITERIA, "scale": DEFAULT_SCALE},
        }
        return {
            **super().settings(),
            "separator": None if self.chat_template else self.separator,
            "joint_tokenization": self.joint_tokenization,
            "instruction": self.instruction,
            "baselines": {name: words[name] for name in self.baselines},
        }

    def texts_of(self, asked: Asked, row: Mapping[str, Any]) -> Mapping[str, LabelledText]:
        """Return question and answer, the answer, and the texts of the baselines."""
        answer = row["answer"]
        before = asked if self.instruction is None else put_before([self.instruction], asked)
        before = self.in_chat(before) if self.chat_template else end_with(self.separator, before)
        texts = {
            "qa": followed_by(
                before,
                answer,
                joint_tokenization=self.joint_tokenization,
                names=("qa" if self.joint_tokenization else "q", "a_given_q"),
            ),
            "a": LabelledText(answer, {"a": ((0, len(answer)),)}),
        }
        if "gptscore" in self.baselines:
            texts["gptscore"] = gptscore_text(self, GPTSCORE_INSTRUCTION, asked, answer)
        if "geval" in self.baselines:
            texts |= geval_texts(self, GEVAL_CRITERIA, DEFAULT_SCALE, asked, answer)
        return texts

    def parts_of(self, scored: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the likelihoods of question and answer, and those of the baselines."""
        spans = scored["qa"]["spans"]
        answer = spans["a_given_q"]
        parts = {
            "q": _difference(spans["qa"], answer) if self.joint_tokenization else spans["q"],
            "a_given_q": answer,
            "a": scored["a"]["spans"]["a"],
        }
        if "gptscore" in self.baselines:
            parts["gptscore"] = scored["gptscore"]["spans"]["a"]
        if "geval" in self.baselines:
            parts["geval"] = geval_parts(DEFAULT_SCALE, scored)
        return parts

    def parts_without_answer(self, part: Part) -> dict[str, Any]:
        """Return ``part`` in place of every likelihood."""
        parts: dict[str, Any] = {"q": part, "a_given_q": part, "a": part}
        if "gptscore" in self.baselines:
            parts["gptscore"] = part
        if "geval" in self.baselines:
            parts["geval"] = {str(k): part for k in range(1, DEFAULT_SCALE + 1)}
        return parts


def _difference(both: Part, answer: Part) -> Part:
    """Return the likelihood of the question: that of both less that of the answer.

    All that a likelihood sums up is a sum over tokens, so the difference is one as well.
    """
    if both["ppl"] is None or answer["ppl"] is None:
        return {**both, "token_len": both["token_len"] - answer["token_len"]}
    return {**both, **{name: both[name] - answer[name] for name in _SUMS}}
