"""What one row of a file of questions and answers says, checked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opencompass_ext.datasets.pplqa_votes import Vote, read_votes
from opencompass_ext.datasets.rag_rows import sources_of
from opencompass_ext.datasets.values import is_number, shown
from opencompass_ext.errors import DataError

# The name of the one system of a row that names none.
UNNAMED_SYSTEM = "system"
# All that is read of a row, in either of the shapes.
KEYS = (
    *("id", "question", "query", "answers", "answer", "response", "model", "system", "category"),
    *("sources", "preferences", "human_preference", "ranks", "grounded", "label"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A system's answer; ``grounded``, where it is known: 1 if its sources support it, else 0."""

    text: str
    grounded: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the answers of the systems, and what people think of them.

    Attributes:
        id: Its name.
        text: The question.
        answers: System -> answer.
        category: Topic, or None.
        sources: Texts that were retrieved for it, or None.
        votes: Preferences among the answers.
        ranks: System -> rank; 1 is the best.
    """

    id: str
    text: str
    answers: Mapping[str, Answer]
    category: str | None
    sources: tuple[str, ...] | None
    votes: tuple[Vote, ...]
    ranks: Mapping[str, float]


def read_question(row: Mapping[str, Any], predicted: Mapping[str, str]) -> Question:
    """Return what a row says.

    Args:
        row: One row of the file.
        predicted: Answers that come from elsewhere, by system. They stand after those of the file,
            which may then be left out.

    Raises:
        DataError: The row is not what it has to be; the message does not say where it stands.
    """
    answers = _read_answers(row, is_needed=not predicted)
    for system, text in predicted.items():
        if system in answers:
            raise DataError(f"{system!r} has an answer in the file and another in answers_from")
        answers[system] = Answer(text)
    return Question(
        id=_read_id(row),
        text=read_text(row),
        answers=answers,
        category=_read_category(row),
        sources=_read_sources(row),
        votes=tuple(read_votes(row, list(answers))),
        ranks=_read_ranks(row, answers),
    )


def read_text(row: Mapping[str, Any]) -> str:
    """Return the question of a row; rows of retrieval data call it the query.

    Raises:
        DataError: It is missing, blank, or not text.
    """
    name = "query" if "query" in row and "question" not in row else "question"
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{name!r} must be a text that is not blank, got {shown(value)}")
    return value


def misspelt_keys(row: Mapping[str, Any]) -> set[str]:
    """Return the keys of a row that are not read and look like one that would be.

    Example:
        >>> misspelt_keys({"id": 1, "prefrences": [], "question_id": 7})
        {'prefrences'}
    """
    unknown = [name for name in row if name not in KEYS]
    return {name for name in unknown if difflib.get_close_matches(name, KEYS, cutoff=0.88)}


def _read_id(row: Mapping[str, Any]) -> str:
    value = row.get("id")
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise DataError(
            f"'id' must be a text that is not blank, or a whole number, got {shown(value)}"
        )
    return str(value)


def _read_answers(row: Mapping[str, Any], is_needed: bool) -> dict[str, Answer]:
    single = next((name for name in ("answer", "response") if name in row), None)
    if single is not None and "answers" in row:
        raise DataError(f"the row has both 'answers' and {single!r}: give one of them")
    if single is not None:
        # Rows of retrieval data name the system and the label otherwise.
        system = _first_of(row, "model", "system", default=UNNAMED_SYSTEM)
        grounded = _first_of(row, "grounded", "label", default=None)
        return {_read_system(system): _read_answer({**row, "grounded": grounded}, single)}
    value = row.get("answers")
    if not value and not is_needed:
        return {}
    if not isinstance(value, list) or not value:
        raise DataError(
            '\'answers\' must be a list [{"model": name, "answer": text}, ...] with at least one '
            f"answer, got {shown(value)}; answers of earlier runs are read with answers_from=[...]"
        )
    answers: dict[str, Answer] = {}
    for number, item in enumerate(value, start=1):
        try:
            if not isinstance(item, dict):
                raise DataError(f"expected an object with 'model' and 'answer', got {shown(item)}")
            system = _read_system(item.get("model"))
            if system in answers:
                raise DataError(f"the model {system!r} has two answers")
            answers[system] = _read_answer(item, "answer")
        except DataError as error:
            raise DataError(f"answers, item {number}: {error}") from None
    return answers


def _first_of(row: Mapping[str, Any], *names: str, default: str | None) -> Any:
    return next((row[name] for name in names if name in row), default)


def _read_system(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"'model' must be the name of a system, got {shown(value)}")
    if value != value.strip():
        raise DataError(
            f"the model {value!r} begins or ends with a blank, which makes it another one"
        )
    return value


def _read_answer(item: Mapping[str, Any], name: str) -> Answer:
    text, grounded = item.get(name), item.get("grounded")
    if not isinstance(text, str):
        raise DataError(f"{name!r} must be text, got {shown(text)}")
    if grounded is not None and (isinstance(grounded, float) or grounded not in (0, 1)):
        raise DataError(f"'grounded' must be 1 (supported) or 0 (not), got {shown(grounded)}")
    return Answer(text, None if grounded is None else int(grounded))


def _read_category(row: Mapping[str, Any]) -> str | None:
    value = row.get("category")
    if value is not None and not isinstance(value, str):
        raise DataError(f"'category' must be text, got {shown(value)}")
    return value


def _read_sources(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    sources = sources_of(row)
    return None if sources is None else tuple(source["text"] for source in sources)


def _read_ranks(row: Mapping[str, Any], answers: Mapping[str, Answer]) -> dict[str, float]:
    value = row.get("ranks")
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(map(is_number, value.values())):
        raise DataError(
            f"'ranks' must be an object {{model: number}}, 1 for the best, got {shown(value)}"
        )
    for system in value:
        if system not in answers:
            raise DataError(
                f"ranks: {system!r} has no answer; there are answers of "
                f"{', '.join(map(repr, answers))}"
            )
    return {system: float(rank) for system, rank in value.items()}
