"""From the parts of a predictions file, made by several tasks, to the whole.

A part holds its rows under their numbers in the dataset and in the form in which the whole has
them, so the whole is the parts joined: no row is parsed, whatever their number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from opencompass_ext.errors import OpenCompassExtError, PredictionsError
from opencompass_ext.outputs import RunFolder, journal_path, rows_path
from opencompass_ext.predictions.final_file import (
    HEAD,
    SEPARATOR,
    TAIL,
    RowIdentities,
    final_chunks,
    identities_of,
    read_final,
    read_made_by,
    read_provenance,
    write_final,
)
from opencompass_ext.predictions.lock import locked, remove_parts
from opencompass_ext.records import RowRange, TaskOutcome
from opencompass_ext.writing import writing

_CHUNK_BYTES = 1 << 20


class _Part(NamedTuple):
    """A file with some rows of the whole, and what tells them."""

    path: Path
    identities: RowIdentities


def merge_finished(run_folder: RunFolder, outcomes: Sequence[TaskOutcome]) -> list[TaskOutcome]:
    """Merge the parts of each pair of model and dataset whose tasks have all ended well.

    Returns:
        A failed outcome for each pair whose parts cannot be merged.
    """
    of_pair: dict[tuple[str, str], list[TaskOutcome]] = {}
    for outcome in outcomes:
        if any(outcome.task.rows):
            pair = (outcome.task.model["abbr"], outcome.task.datasets[0]["abbr"])
            of_pair.setdefault(pair, []).append(outcome)
    failures = []
    for pair, its_outcomes in of_pair.items():
        if all(outcome.status == "done" for outcome in its_outcomes):
            ranges = [rows for o in its_outcomes for rows in o.task.rows if rows is not None]
            try:
                merge_parts(run_folder.predictions(*pair), ranges)
            except OpenCompassExtError as error:
                whole = dataclasses.replace(its_outcomes[0].task, rows=())
                failures.append(TaskOutcome(whole, "failed", " ".join(str(error).split())))
    return failures


def merge_parts(predictions: Path, ranges: Sequence[RowRange]) -> None:
    """Make the predictions file of a dataset from parts that tasks have finished; remove the parts.

    Rows that are in the predictions file already, and have no part, stay.

    Args:
        predictions: The file of the whole dataset.
        ranges: All ranges of rows that the dataset was cut into.

    Raises:
        PredictionsError: A part is missing, not finished, or damaged: its rows are named, and
            the file of the whole stays as it is.
        OutputError: The file cannot be written; the parts are kept.
    """
    ordered = sorted(ranges)
    _check_gapless(predictions, ordered)
    with locked(predictions):
        if any(rows_path(predictions, *rows[:2]).exists() for rows in ordered) or _has_more(
            predictions, ordered
        ):
            parts = [_find_part(predictions, rows) for rows in ordered]
            made_by = read_made_by(parts[0].path)
            write_final(predictions, _joined(parts), _all_identities(parts), made_by)
        with writing(journal_path(predictions)):
            journal_path(predictions).unlink(missing_ok=True)
        remove_parts(predictions)


def _check_gapless(predictions: Path, ordered: Sequence[RowRange]) -> None:
    expected = 0
    for rows in ordered:
        if rows.start != expected:
            raise PredictionsError(
                f"{predictions}: no task is there for the rows {min(expected, rows.start)} to "
                f"{max(expected, rows.start) - 1} of {rows.total}, or two are"
            )
        expected = rows.stop
    if not ordered or expected != ordered[0].total:
        raise PredictionsError(
            f"{predictions}: the tasks end at row {expected} of "
            f"{ordered[0].total if ordered else 0}"
        )


def _has_more(predictions: Path, ordered: Sequence[RowRange]) -> bool:
    """Whether the file as it stands has rows beyond those of the dataset."""
    return read_provenance(predictions).get("num_rows") != ordered[-1].stop


def _find_part(predictions: Path, rows: RowRange) -> _Part:
    path = rows_path(predictions, rows.start, rows.stop)
    name = f"rows {rows.start} to {rows.stop - 1} of {rows.total}"
    if journal_path(path).exists():
        raise PredictionsError(
            f"{predictions}: {name} are not finished ({journal_path(path)}): go on with "
            "inference (-m infer -r)"
        )
    if not path.exists():
        _take_out_of_whole(predictions, path, rows, name)
    identities = identities_of(path)
    recorded = read_provenance(path).get("rows")
    is_right = identities is not None and len(identities.row_keys) == rows.stop - rows.start
    if not is_right or recorded is None or recorded[:2] != [rows.start, rows.stop]:
        raise PredictionsError(
            f"{path}, {name}, is not as inference has written it: remove it and run inference "
            "again (-m infer -r)"
        )
    assert identities is not None
    return _Part(path, identities)


def _take_out_of_whole(predictions: Path, path: Path, rows: RowRange, name: str) -> None:
    """Make a part of rows that an earlier whole has.

    Rows that stand only there would be lost if the machine died between the new whole and its
    provenance.
    """
    whole = identities_of(predictions)
    if whole is None or len(whole.row_keys) < rows.stop:
        raise PredictionsError(
            f"{predictions}: {name} are missing (no {path}): run inference again (-m infer -r)"
        )
    found = dict(enumerate(read_final(predictions)[rows.start : rows.stop]))
    chunks = final_chunks(found, len(found), rows.start)
    identities = whole.of(rows.start, rows.stop)
    write_final(path, chunks, identities, read_made_by(predictions), rows)


def _inside(path: Path) -> Iterator[bytes]:
    """Yield the content of a part without its first and last line."""
    end = path.stat().st_size - len(TAIL)
    with open(path, "rb") as file:
        left = end - file.seek(len(HEAD))
        while left > 0:
            chunk = file.read(min(_CHUNK_BYTES, left))
            left -= len(chunk)
            yield chunk


def _joined(parts: Sequence[_Part]) -> Iterator[bytes]:
    for i, part in enumerate(parts):
        yield SEPARATOR if i else HEAD
        yield from _inside(part.path)
    yield TAIL


def _all_identities(parts: Sequence[_Part]) -> RowIdentities:
    data_keys: list[str] | None = []
    for part in parts:
        if data_keys is None or part.identities.data_keys is None:
            data_keys = None
        else:
            data_keys += part.identities.data_keys
    row_keys = [key for part in parts for key in part.identities.row_keys]
    return RowIdentities(row_keys, data_keys)
