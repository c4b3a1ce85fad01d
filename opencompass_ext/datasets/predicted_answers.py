"""Answers that systems gave in earlier runs, read from predictions files."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opencompass_ext.datasets.ranges import select_rows
from opencompass_ext.errors import ConfigError, DataError, did_you_mean
from opencompass_ext.outputs import RunFolder
from opencompass_ext.predictions.file import load_predictions

logger = logging.getLogger(__name__)


class PredictedAnswers(NamedTuple):
    """What one system answered, a row for each question, and the file that says so."""

    system: str
    path: Path
    rows: Sequence[Mapping[str, Any]]

    @property
    def texts(self) -> list[str]:
        """The answers."""
        return [row["prediction"] for row in self.rows]


def read_answers_of_systems(
    files: Sequence[str | Mapping[str, Any]], questions: Sequence[str], key: str
) -> list[PredictedAnswers]:
    """Return the answers of predictions files made by this package or by OpenCompass.

    Args:
        files: One for each system, see ``read_answers``; a ``dict`` may have ``model`` as well,
            where the system is not to be called like the folder.
        questions: The questions, in order: row i of each file answers question i.
        key: Of the config, under which the files stand: ``<what>_from``, beside ``<what>_range``.

    Raises:
        ConfigError: An entry of ``files`` is none, or two are of one system.
        DataError: A file holds no answers, or not those to the questions.
        PredictionsError: A file is missing, damaged or unfinished.
    """
    if isinstance(files, (str, os.PathLike, Mapping)) or not files:
        raise ConfigError(f"{key} must be a list of predictions files, at least one, got {files!r}")
    answers: list[PredictedAnswers] = []
    for file in files:
        entry = _read_entry(file, key, ("path", "model", "check_prompts"))
        for other in answers:
            if other.system == entry.system:
                raise ConfigError(
                    f"{key} names {entry.system!r} twice, {other.path} and {entry.path}: tell them "
                    "apart with dict(path=..., model=...)"
                )
        answers.append(_read_answers(entry, questions, key))
    return answers


def read_answers(
    file: str | Mapping[str, Any], questions: Sequence[str], key: str
) -> PredictedAnswers:
    """Return the answers of one predictions file.

    Args:
        file: ``<work_dir>/<time>/predictions/<system>/<dataset>.json``, where a folder called
            ``latest`` that does not exist stands for the latest run; or ``dict(path=...)`` with
            ``check_prompts=False``, where the prompts in the file do not hold the questions.
        questions: See ``read_answers_of_systems``.
        key: See ``read_answers_of_systems``.

    Raises:
        ConfigError: ``file`` is neither.
        DataError: The file holds no answers, or not those to the questions.
        PredictionsError: The file is missing, damaged or unfinished.
    """
    return _read_answers(_read_entry(file, key, ("path", "check_prompts")), questions, key)


def answered_rows(
    total: int, files: object, answered: int | float | str | None, key: str
) -> Sequence[int]:
    """Return the rows of the data that the predictions files answer.

    Args:
        total: Rows of the data.
        files: What stands in the config under ``key``; None if nothing does.
        answered: What stands under ``<what>_range``, as in ``test_range``; None for all rows.
        key: See ``read_answers_of_systems``.

    Raises:
        ConfigError: There is a range and there are no files, or it is no range.
    """
    if answered is None:
        return range(total)
    if files is None:
        raise ConfigError(
            f"{_range_key(key)} says which rows {key} answers: without {key} choose rows with "
            "reader_cfg -> test_range"
        )
    try:
        return select_rows(total, answered)
    except ConfigError as error:
        raise ConfigError(f"{_range_key(key)}: {error}") from error


class _Entry(NamedTuple):
    """A predictions file as the config names it."""

    path: Path
    system: str
    checks_prompts: bool


def _range_key(key: str) -> str:
    return f"{key.removesuffix('_from')}_range"


def _read_entry(file: Any, key: str, keys: tuple[str, ...]) -> _Entry:
    given: Any = {"path": file} if isinstance(file, (str, os.PathLike)) else file
    if not isinstance(given, Mapping) or not isinstance(given.get("path"), (str, os.PathLike)):
        shown = ", ".join(f"{name}=..." for name in keys)
        raise ConfigError(
            f"{key}: expected the path of a predictions file, or dict({shown}), got {file!r}"
        )
    for name in given:
        if name not in keys:
            raise ConfigError(
                f"{key}: no key {name!r} beside a path: {did_you_mean(str(name), keys)}"
            )
    path = _latest(Path(given["path"]).expanduser(), key)
    system = given.get("model", path.absolute().parent.name)
    if not isinstance(system, str) or not system.strip():
        raise ConfigError(f"{key}: 'model' must be the name of a system, got {system!r}")
    return _Entry(path, system, bool(given.get("check_prompts", True)))


def _latest(path: Path, key: str) -> Path:
    """Return the path with the name of the latest run in place of ``latest``."""
    for folder in path.parents:
        if folder.name == "latest" and not folder.exists():
            runs = RunFolder.existing(folder.parent)
            if not runs:
                raise DataError(
                    f"{key}: there is no run under {folder.parent} yet, so none is the "
                    f"latest: generate the answers first, or name a file in place of {path}"
                )
            return folder.parent / runs[-1] / path.relative_to(folder)
    return path


def _read_answers(entry: _Entry, questions: Sequence[str], key: str) -> PredictedAnswers:
    path = entry.path
    rows = load_predictions(path, "give another file, or make this one again where it came from")
    if len(rows) != len(questions):
        raise DataError(
            f"{path} holds {len(rows)} answers, and there are {len(questions)} questions: row i "
            "must answer question i. If only some were generated, say which with "
            f"{_range_key(key)}='[...]', as in the test_range of that run"
        )
    for number, row in enumerate(rows):
        if not isinstance(row.get("prediction"), str):
            raise DataError(
                f"{path}, row {number}: 'prediction' must be the answer as text, got "
                f"{row.get('prediction')!r:.80}; the row has {', '.join(row) or 'nothing'}"
            )
        if entry.checks_prompts and row.get("origin_prompt"):
            _check_prompt(path, number, row["origin_prompt"], questions)
    cut = sum(row.get("finish_reason") == "length" for row in rows)
    if cut:
        logger.warning(
            "%s: %d of %d answers were cut at max_out_len, and are taken as they are",
            path,
            cut,
            len(rows),
        )
    return PredictedAnswers(entry.system, path, rows)


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
