r"""The texts that scores of an answer are made of.

    instruction \n\n sources \n\n question separator answer
                                  |-------------------||------|
                                        q                a_given_q

All that stands before the question is context: it is read, and counted in no part. The rivals of
PPLqa ask for the same answer in words of their own::

    GPTScore   a request to answer well, the question, then the answer, whose likelihood counts
    G-EVAL     criteria, question and answer, then a score from 1 to K, whose likelihoods count
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from opencompass_ext.errors import ConfigError
from opencompass_ext.records import LabelledText, Message, Span

GPTSCORE_INSTRUCTION = (
    "Answer the question below. The answer should be to the point, correct, complete and easy to "
    "follow."
)

GEVAL_CRITERIA = (
    "You are given a question and an answer to it. Judge how good the answer is.\n"
    "- Relevance: does it answer what was asked?\n"
    "- Correctness: is what it says true?\n"
    "- Completeness: does it leave out nothing that matters?\n"
    "- Clarity: is it easy to follow?"
)

# Stands where a question would, to see what a chat template puts around it.
_MARK = "\ue000the question\ue000"

ChatText = Callable[[Sequence[Message]], str]


class Asked(NamedTuple):
    """What stands before an answer.

    Attributes:
        text: All of it.
        question: The characters of the question, which are counted with it.
    """

    text: str
    question: tuple[Span, ...]


def put_before(context: Sequence[str], asked: Asked) -> Asked:
    r"""Return a question with paragraphs before it, which are not counted.

    Example:
        >>> put_before(["Be brief."], Asked("Why?", ((0, 4),)))
        Asked(text='Be brief.\n\nWhy?', question=((11, 15),))
    """
    before = "".join(f"{paragraph}\n\n" for paragraph in context)
    return Asked(before + asked.text, _moved(asked.question, len(before)))


def end_with(separator: str, asked: Asked) -> Asked:
    r"""Return a question with a separator behind it, which counts with the question.

    Example:
        >>> end_with("\n", Asked("Why?", ((0, 4),)))
        Asked(text='Why?\n', question=((0, 4), (4, 5)))
    """
    end = len(asked.text)
    spans = (*asked.question, (end, end + len(separator))) if separator else asked.question
    return Asked(asked.text + separator, spans)


def put_into_chat(chat_text: ChatText, asked: Asked) -> Asked:
    """Return a question as a user's turn in a chat template, up to where the answer begins.

    Args:
        chat_text: Returns messages in the model's chat template.
        asked: The question and what stands before it.

    Raises:
        ConfigError: The template changes the text, so that no one can say where the question is.

    Example:
        >>> put_into_chat(lambda turns: f"<u>{turns[0]['content']}<a>", Asked("Why?", ((0, 4),)))
        Asked(text='<u>Why?<a>', question=((3, 7),))
    """
    text = chat_text([{"role": "user", "content": asked.text}])
    before, _, after = chat_text([{"role": "user", "content": _MARK}]).partition(_MARK)
    for shown in (asked.text, asked.text.strip()):
        if text == before + shown + after:
            # Templates may strip a turn.
            lost = asked.text.index(shown)
            inside = [
                (max(start - lost, 0), min(end - lost, len(shown))) for start, end in asked.question
            ]
            spans = tuple((start, end) for start, end in inside if start < end)
            return Asked(text, _moved(spans, len(before)))
    raise ConfigError(
        f"the chat template does not keep the question {asked.text!r:.80} as it is, so its tokens "
        "cannot be counted: use chat_template=False"
    )


def followed_by(
    asked: Asked, answer: str, *, joint_tokenization: bool, names: tuple[str, str]
) -> LabelledText:
    """Return a question followed by an answer, the spans of both under the names given.

    Args:
        asked: The question.
        answer: The answer.
        joint_tokenization: Let tokens stretch over the border of the two. Such a token is part of
            both spans; the first span is then that of both together, from which the second can be
            taken.
        names: Of the span of the question (with ``joint_tokenization`` of both), and of the answer.

    Example:
        >>> text = followed_by(
        ...     Asked("Why?", ((0, 4),)), "So.", joint_tokenization=False, names=("q", "a")
        ... )
        >>> text.text, text.spans, text.cuts
        ('Why?So.', {'q': ((0, 4),), 'a': ((4, 7),)}, (4,))
    """
    start = len(asked.text)
    text = asked.text + answer
    answer_span = (start, len(text))
    first = (*asked.question, answer_span) if joint_tokenization else asked.question
    cuts = () if joint_tokenization else (start,)
    return LabelledText(text, {names[0]: first, names[1]: (answer_span,)}, cuts)


def gptscore_request(instruction: str, asked: Asked) -> Asked:
    """Return the request of GPTScore: what kind of answer is wanted, and the question."""
    return put_before([instruction], _labelled("Question: ", asked, ""))


def geval_form(criteria: str, asked: Asked, answer: str, scale: int) -> Asked:
    """Return the form of G-EVAL, filled in but for the score."""
    filled = _labelled(
        "Question:\n",
        asked,
        f"\n\nAnswer:\n{answer}\n\nGive the answer a score from 1 (very bad) to {scale} (very "
        "good), as a single number.",
    )
    return put_before([criteria], filled)


def with_scores(form: str, scale: int) -> Mapping[str, LabelledText]:
    """Return the filled-in form with each of the scores, which alone is counted.

    The blank belongs to the score, as most tokenizers join it to the number.

    Example:
        >>> texts = with_scores("...Score:", 2)
        >>> texts["2"].text, texts["2"].spans
        ('...Score: 2', {'score': ((9, 11),)})
    """
    return {
        str(k): LabelledText(f"{form} {k}", {"score": ((len(form), len(form) + 2),)})
        for k in range(1, scale + 1)
    }


def _labelled(before: str, asked: Asked, after: str) -> Asked:
    return Asked(before + asked.text + after, _moved(asked.question, len(before)))


def _moved(spans: Sequence[Span], by: int) -> tuple[Span, ...]:
    return tuple((start + by, end + by) for start, end in spans)
