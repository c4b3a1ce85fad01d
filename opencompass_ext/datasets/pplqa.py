"""Questions with the answers of several systems: the data of PPLqa."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from opencompass_ext.datasets.arrow import rows_to_dataset
from opencompass_ext.datasets.base import BaseDataset
from opencompass_ext.datasets.paths import find_data_file
from opencompass_ext.datasets.pplqa_rows import Question, misspelt_keys, read_question, read_text
from opencompass_ext.datasets.predicted_answers import answered_rows, read_answers_of_systems
from opencompass_ext.datasets.row_files import FileRows, read_rows
from opencompass_ext.errors import DataError
from opencompass_ext.registry import DATASETS

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)

_EXTENSIONS = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
_FROM = "answers_from"
_Read = TypeVar("_Read")


@DATASETS.register_module()
class PPLqaDataset(BaseDataset):
    """One test row for every answer to every question, from a file with a question on each line.

    A line of the file::

        {"id": "q1", "question": "...", "answers": [{"model": "x", "answer": "..."}, ...],
         "category": "...", "sources": ["...", ...],
         "preferences": [{"a": "x", "b": "y", "winner": "a", "judge": "..."}, ...],
         "ranks": {"x": 1, "y": 2}}

    ``id`` and ``question`` must be there, and ``answers`` unless they come from ``answers_from``.
    ``winner`` is ``"a"``, ``"b"`` or ``"tie"``. In place of ``preferences`` a line may have
    ``"human_preference": [{"better": "x", "worse": "y"}, ...]``, and in place of ``answers`` a
    single ``answer`` with its ``model``. An answer may say whether the sources support it:
    ``"grounded": 1`` or ``0``. Rows for ``RAGDataset`` are read as well: ``sources`` are what they
    are there, ``query`` is the question, ``response`` the answer, ``system`` its model, and
    ``label`` says whether it is grounded.

    Test rows: ``{id, question, model, answer, category, preferences: [{a, b, winner, judge}],
    rank}``, and ``sources`` and ``grounded`` where the file has them. All rows of a question hold
    all its preferences.

    A blank question is an error. A blank answer is kept, since systems do give such: its
    likelihoods will be null with a reason.

    ``reader_cfg -> test_range`` and ``limit`` count questions: the answers to one are never cut
    apart.

    Config keys:
        path: The folder of the file, or the file itself. A relative path is looked up below the
            current folder, then among the files shipped with the package.
        name: File name in the folder, without ``.jsonl``.
        answers_from: Predictions files, one for each system, of this package or of OpenCompass:
            ``"<work_dir>/<time>/predictions/<system>/<dataset>.json"``, or ``dict(path=...,
            model=...)`` to call the system otherwise than the folder. ``latest`` in place of the
            time stands for the latest run. Row i of each answers question i of the file.
        answers_range: The questions that ``answers_from`` answers, when these are not all: the
            ``test_range`` they were generated with. The others are left out.

    Example:
        >>> data = PPLqaDataset(path="data/pplqa", name="mtbench_human", limit=2)
        >>> [row["model"] for row in data.test if row["id"] == "mtbench-82"]
        ['claude-v1', 'gpt-4', 'llama-13b']
        >>> data.test[0]["preferences"]
        [{'a': 'alpaca-13b', 'b': 'vicuna-13b-v1.2', 'winner': 'b', 'judge': None}]
    """

    group_column = "id"
    label_columns = ("preferences", "rank", "category", "grounded")

    @staticmethod
    def load(  # type: ignore[override]
        path: str,
        name: str | None = None,
        answers_from: Sequence[str | Mapping[str, Any]] | None = None,
        answers_range: int | float | str | None = None,
    ) -> Dataset:
        """Return the test rows; see the class.

        Raises:
            DataError: A file is missing or broken, or a line is not what it has to be; the message
                names file and line.
            ConfigError: ``answers_from`` or ``answers_range`` is not what it has to be.
        """
        return rows_to_dataset(_test_rows(path, name, answers_from, answers_range))

    def where(self, row: int) -> str:
        """Return file and line of a row, by reading the file once more."""
        rows = _test_rows(**self.load_arguments)
        return f"{rows.where(row)}, answer of {rows.rows[row]['model']!r}"


def _test_rows(
    path: str,
    name: str | None = None,
    answers_from: Sequence[str | Mapping[str, Any]] | None = None,
    answers_range: int | float | str | None = None,
) -> FileRows:
    file = read_rows(find_data_file(path, name, _EXTENSIONS))
    answered = answered_rows(len(file.rows), answers_from, answers_range, _FROM)
    texts = [_at(file, i, read_text, file.rows[i]) for i in answered]
    predicted = [] if answers_from is None else read_answers_of_systems(answers_from, texts, _FROM)
    rows: list[dict[str, Any]] = []
    places: list[int] = []
    first_with: dict[str, int] = {}
    warned: set[str] = set()
    for number, i in enumerate(answered):
        more = {answers.system: answers.texts[number] for answers in predicted}
        question = _at(file, i, read_question, file.rows[i], more)
        for name in misspelt_keys(file.rows[i]) - warned:
            warned.add(name)
            logger.warning("%s: the key %r is not read: is it misspelt?", file.where(i), name)
        first = first_with.setdefault(question.id, i)
        if first != i:
            raise DataError(
                f"{file.where(i)}: the id {question.id!r} is taken by {file.unit} "
                f"{file.places[first]}: every question needs its own"
            )
        rows += _rows_of(question)
        places += [file.places[i]] * len(question.answers)
    return FileRows(file.path, rows, places, file.unit)


def _at(file: FileRows, index: int, read: Callable[..., _Read], *args: Any) -> _Read:
    try:
        return read(*args)
    except DataError as error:
        raise DataError(f"{file.where(index)}: {error}") from None


def _rows_of(question: Question) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for system, answer in question.answers.items():
        row: dict[str, Any] = {
            "id": question.id,
            "question": question.text,
            "model": system,
            "answer": answer.text,
            "category": question.category,
            "preferences": [vote._asdict() for vote in question.votes],
            "rank": question.ranks.get(system),
        }
        if question.sources is not None:
            row["sources"] = list(question.sources)
        if answer.grounded is not None:
            row["grounded"] = answer.grounded
        rows.append(row)
    return rows
