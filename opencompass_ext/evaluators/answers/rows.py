"""The rows of a data set of answers, checked, and the likelihoods that belong to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opencompass_ext.datasets.pplqa_votes import WINNERS, Vote
from opencompass_ext.datasets.values import is_number
from opencompass_ext.errors import DataError, PredictionsError
from opencompass_ext.metrics.parts import Part


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer to one question.

    Attributes:
        question: Id of the question.
        system: Who answered.
        chars: Length of the answer.
        category: Topic of the question, or None.
        rank: Rank that people gave the answer among those to this question; 1 is the best.
        votes: What people think of the answers to this question; the same in each of its rows.
        grounded: Whether the sources support the answer, where that is known.
    """

    question: str
    system: str
    chars: int
    category: str | None = None
    rank: float | None = None
    votes: tuple[Vote, ...] = ()
    grounded: bool | None = None


def read_rows(
    test_set: Iterable[Mapping[str, Any]],
    ids: Sequence[Any] | None = None,
    systems: Sequence[Any] | None = None,
    chars: Sequence[Any] | None = None,
) -> list[AnswerRow]:
    """Return the rows of the data set.

    Args:
        test_set: Rows with ``id``, ``model``, ``answer`` and, where known, ``category``,
            ``preferences``, ``rank`` and ``grounded``.
        ids: The question of each prediction, to see that it belongs to the row; None when unknown.
        systems: The system of each prediction, likewise.
        chars: Length of each answer as it was scored; None takes that of the data.

    Raises:
        DataError: A row is not what it has to be, or a system has two answers to one question.
        PredictionsError: The predictions are those of other rows.
    """
    rows = [_read_row(number, row) for number, row in enumerate(test_set)]
    seen: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows):
        first = seen.setdefault((row.question, row.system), number)
        if first != number:
            raise DataError(
                f"rows {first} and {number} are both the answer of {row.system!r} to the question "
                f"{row.question!r}: a system answers a question once"
            )
    for name, column, of_row in (("id", ids, "question"), ("model", systems, "system")):
        for number, (given, row) in enumerate(zip(column or (), rows, strict=bool(column))):
            if given is not None and str(given) != getattr(row, of_row):
                raise PredictionsError(
                    f"row {number}: the prediction is for {name!r} {given!r}, the data set has "
                    f"{getattr(row, of_row)!r} there: run the inference again (-m infer -r)"
                )
    if chars is None:
        return rows
    return [
        row if length is None else _with_chars(row, number, length)
        for number, (row, length) in enumerate(zip(rows, chars, strict=True))
    ]


def read_part(value: Any, row: int, column: str, reason: str | None = None) -> Part:
    """Return the likelihood that a row of the predictions holds.

    Args:
        value: ``{"ppl": nats or null, "token_len": tokens, "reason": ...}``, or None.
        row: Number of the row, for the error.
        column: Name of the column, for the error.
        reason: Why the whole row has no value, if so.

    Raises:
        PredictionsError: It is something else.

    Example:
        >>> read_part({"ppl": 2.0, "token_len": 4}, 0, "q")
        Part(nll=2.0, tokens=4, reason=None)
        >>> read_part(None, 0, "q", "blank_answer")
        Part(nll=None, tokens=0, reason='blank_answer')
    """
    reason = read_reason(reason, row)
    if value is None:
        return Part(None, 0, reason or "not_scored")
    if not isinstance(value, Mapping) or "ppl" not in value or "token_len" not in value:
        raise PredictionsError(
            f"row {row}: {column!r} must hold 'ppl' and 'token_len', got {value!r:.80}; "
            "run the inference again (-r)"
        )
    nll, tokens = value["ppl"], value["token_len"]
    if nll is not None and not is_number(nll):
        raise PredictionsError(f"row {row}: 'ppl' of {column!r} must be a number, got {nll!r:.80}")
    if not is_number(tokens) or tokens < 0 or tokens != tokens // 1:
        raise PredictionsError(
            f"row {row}: 'token_len' of {column!r} must be a whole number, got {tokens!r:.80}"
        )
    if nll and not tokens:
        raise PredictionsError(
            f"row {row}: 'ppl' of {column!r} is {nll!r} over 'token_len' 0: no tokens sum to 0"
        )
    if reason is None and value.get("truncated_tokens"):
        # One pass cut and the other not: their difference would measure the cut.
        reason = "truncated_text"
    if reason is not None:
        return Part(None, int(tokens), reason)
    return Part(nll, int(tokens), read_reason(value.get("reason"), row))


def read_reason(value: Any, row: int) -> str | None:
    """Return why a row of the predictions, or a part of it, has no value; None where it has one.

    Raises:
        PredictionsError: It is no text.
    """
    if value is not None and not isinstance(value, str):
        raise PredictionsError(f"row {row}: 'reason' must be text or null, got {value!r:.80}")
    return value


def _read_row(number: int, row: Mapping[str, Any]) -> AnswerRow:
    for name in ("id", "model", "answer"):
        if row.get(name) is None:
            raise DataError(
                f"row {number} has no {name!r} (columns: {', '.join(map(str, row))}): an evaluator "
                "of answers needs the data set of the inference, such as PPLqaDataset"
            )
    category, rank, grounded = row.get("category"), row.get("rank"), row.get("grounded")
    if rank is not None and not is_number(rank):
        raise DataError(f"row {number}: 'rank' must be a number, 1 for the best, got {rank!r:.80}")
    if grounded is not None and grounded not in (0, 1):
        raise DataError(f"row {number}: 'grounded' must be 0 or 1, got {grounded!r:.80}")
    preferences = row.get("preferences") or ()
    if not isinstance(preferences, (list, tuple)):
        raise DataError(
            f"row {number}: 'preferences' must be a list of preferences, got {preferences!r:.80}"
        )
    return AnswerRow(
        question=str(row["id"]),
        system=str(row["model"]),
        chars=len(str(row["answer"])),
        category=None if category is None else str(category),
        rank=None if rank is None else float(rank),
        votes=tuple(_read_vote(number, vote) for vote in preferences),
        grounded=None if grounded is None else bool(grounded),
    )


def _read_vote(number: int, vote: Any) -> Vote:
    if not isinstance(vote, Mapping) or not all(isinstance(vote.get(k), str) for k in "ab"):
        raise DataError(
            f"row {number}: a preference is {{'a': model, 'b': model, 'winner': ...}}, got "
            f"{vote!r:.80}"
        )
    if vote.get("winner") not in WINNERS:
        raise DataError(
            f"row {number}: 'winner' of a preference must be 'a', 'b' or 'tie', got "
            f"{vote.get('winner')!r:.80}"
        )
    return Vote(vote["a"], vote["b"], vote["winner"])


def _with_chars(row: AnswerRow, number: int, length: Any) -> AnswerRow:
    if not is_number(length) or length < 0:
        raise PredictionsError(
            f"row {number}: 'answer_chars' must be a whole number, got {length!r:.80}"
        )
    return replace(row, chars=int(length))
