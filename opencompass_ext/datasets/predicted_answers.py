"""Answers that systems gave in earlier runs, read from predictions files."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opencompass_ext.errors import ConfigError, DataError, did_you_mean
from opencompass_ext.outputs import RunFolder
from opencompass_ext.predictions.file import load_predictions

logger = logging.getLogger(__name__)

_ENTRY_KEYS = ("path", "model", "check_prompts")


class PredictedAnswers(NamedTuple):
    """What one system answered, a text for each question, and the file that says so."""

    system: str
    path: Path
    texts: list[str]


def read_predicted_answers(
    files: Sequence[str | Mapping[str, Any]], questions: Sequence[str]
) -> list[PredictedAnswers]:
    """Return the answers of predictions files made by this package or by OpenCompass.

    Args:
        files: Paths ``<work_dir>/<time>/predictions/<system>/<dataset>.json``, where a folder
            called ``latest`` that does not exist stands for the latest run; or ``dict(path=...)``
            with ``model``, where the system is not to be called like the folder, and
            ``check_prompts=False``, where the prompts in the file do not hold the questions.
        questions: The questions, in order: row i of each file answers question i.

    Raises:
        ConfigError: An entry of ``files`` is neither, or two are of one system.
        DataError: A file holds no answers, or not those to the questions.
        PredictionsError: A file is missing, damaged or unfinished.
    """
    if isinstance(files, (str, os.PathLike, Mapping)) or not files:
        raise ConfigError(
            f"answers_from must be a list of predictions files, at least one, got {files!r}"
        )
    answers: list[PredictedAnswers] = []
    for entry in files:
        path, system, has_questions = _read_entry(entry)
        for other in answers:
            if other.system == system:
                raise ConfigError(
                    f"answers_from names {system!r} twice, {other.path} and {path}: tell them "
                    "apart with dict(path=..., model=...)"
                )
        answers.append(PredictedAnswers(system, path, _read_texts(path, questions, has_questions)))
    return answers


def _read_entry(entry: Any) -> tuple[Path, str, bool]:
    given: Any = {"path": entry} if isinstance(entry, (str, os.PathLike)) else entry
    if not isinstance(given, Mapping) or not isinstance(given.get("path"), (str, os.PathLike)):
        raise ConfigError(
            "answers_from lists paths of predictions files, or dict(path=..., model=...), got "
            f"{entry!r}"
        )
    for key in given:
        if key not in _ENTRY_KEYS:
            raise ConfigError(
                f"answers_from: no key {key!r} beside a path: {did_you_mean(str(key), _ENTRY_KEYS)}"
            )
    path = _latest(Path(given["path"]).expanduser())
    system = given.get("model", path.absolute().parent.name)
    if not isinstance(system, str) or not system.strip():
        raise ConfigError(f"answers_from: 'model' must be the name of a system, got {system!r}")
    return path, system, bool(given.get("check_prompts", True))


def _latest(path: Path) -> Path:
    """Return the path with the name of the latest run in place of ``latest``."""
    for folder in path.parents:
        if folder.name == "latest" and not folder.exists():
            runs = RunFolder.existing(folder.parent)
            if not runs:
                raise DataError(
                    f"answers_from: there is no run under {folder.parent} yet, so none is the "
                    f"latest: generate the answers first, or name a file in place of {path}"
                )
            return folder.parent / runs[-1] / path.relative_to(folder)
    return path


def _read_texts(path: Path, questions: Sequence[str], has_questions: bool) -> list[str]:
    rows = load_predictions(path, "give another file, or make this one again where it came from")
    if len(rows) != len(questions):
        raise DataError(
            f"{path} holds {len(rows)} answers, and there are {len(questions)} questions: row i "
            "must answer question i. If only some were generated, say which with "
            "answers_range='[...]', as in the test_range of that run"
        )
    for number, row in enumerate(rows):
        if not isinstance(row.get("prediction"), str):
            raise DataError(
                f"{path}, row {number}: 'prediction' must be the answer as text, got "
                f"{row.get('prediction')!r:.80}; the row has {', '.join(row) or 'nothing'}"
            )
        if has_questions and row.get("origin_prompt"):
            _check_prompt(path, number, row["origin_prompt"], questions)
    cut = sum(row.get("finish_reason") == "length" for row in rows)
    if cut:
        logger.warning(
            "%s: %d of %d answers were cut at max_out_len, and are compared as they are",
            path,
            cut,
            len(rows),
        )
    return [row["prediction"] for row in rows]


def _check_prompt(path: Path, number: int, prompt: Any, questions: Sequence[str]) -> None:
    """Refuse a row whose prompt does not hold its question."""
    text = _squeezed(json.dumps(prompt, ensure_ascii=False))

    def holds(question: str) -> bool:
        return _squeezed(json.dumps(question.strip(), ensure_ascii=False)[1:-1]) in text

    if holds(questions[number]):
        return
    other = next((i for i, question in enumerate(questions) if holds(question)), None)
    found = "" if other is None else f", and it holds question {other}"
    raise DataError(
        f"{path}, row {number}: its prompt does not hold question {number} of the file (counted "
        f"from 0){found}: rows and questions must be the same, in the same order. If the prompts "
        "were made in another way, say so with dict(path=..., check_prompts=False)"
    )


def _squeezed(text: str) -> str:
    """Return a text in JSON without blanks and line breaks, which templates change."""
    return "".join(text.replace("\\n", " ").replace("\\t", " ").replace("\\r", " ").split())
