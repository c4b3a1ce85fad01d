"""Put a chunk of rows before the judge: all texts that are cut first, then all verdicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from opencompass_ext.evaluators.thelma.judged import JudgedRow, sentence_pairs
from opencompass_ext.evaluators.thelma.questions import Question, decompositions, questions
from opencompass_ext.evaluators.thelma.rows import RagRow
from opencompass_ext.judging import Decompose, Decomposition, Match, Verdict


class Session(Protocol):
    """What is needed of a judge's session."""

    def decompose(self, questions: Sequence[Decompose]) -> list[Decomposition]:
        """Return the units of each text, in order."""

    def match(self, questions: Sequence[Match]) -> list[tuple[Verdict, ...]]:
        """Return the verdicts of each question, in order."""


class Embedder(Protocol):
    """What is needed of an embedding model."""

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the cosine of each pair of texts."""


def judge_rows(
    rows: Sequence[RagRow],
    session: Session,
    *,
    metrics: Collection[str],
    joint: bool,
    embedder: Embedder | None,
) -> list[JudgedRow]:
    """Return the rows with all that the judge says about them, in order.

    Args:
        rows: Rows that are judged together: the judge is asked twice, whatever their number.
        session: Answers.
        metrics: The metrics wanted.
        joint: See ``ThelmaEvaluator``.
        embedder: Compares sentences; None lets the judge do so.
    """
    judged = [JudgedRow(row) for row in rows]
    _cut(judged, session, metrics)
    asked: list[tuple[JudgedRow, Question]] = [
        (one, question)
        for one in judged
        for question in questions(
            one.row, metrics, one.units, joint=joint, judge_similarity=embedder is None
        )
    ]
    answers = session.match([question.match for _, question in asked])
    for (one, question), verdicts in zip(asked, answers, strict=True):
        one.verdicts.update(zip(question.keys(), verdicts, strict=True))
    if embedder is not None and "response_self_distinctness" in metrics:
        _compare_sentences(judged, embedder)
    return judged


def _cut(judged: Sequence[JudgedRow], session: Session, metrics: Collection[str]) -> None:
    asked = [
        (one, part, question)
        for one in judged
        for part, question in decompositions(one.row, metrics).items()
    ]
    answers = session.decompose([question for _, _, question in asked])
    for (one, part, _), decomposition in zip(asked, answers, strict=True):
        one.parts[part] = decomposition


def _compare_sentences(judged: Sequence[JudgedRow], embedder: Embedder) -> None:
    pairs = [
        (one.row.sentences[first], one.row.sentences[second])
        for one in judged
        for first, second in sentence_pairs(one.row)
    ]
    cosines = iter(embedder.cosines(pairs))
    for one in judged:
        one.similarities = [next(cosines) for _ in sentence_pairs(one.row)]
