"""Finished rows that another division of a dataset into tasks has left.

Whoever goes on with a run may cut its datasets otherwise, or not at all: a row is then found by its
number and its key in the whole predictions file, in the parts of it, or in the journal of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opencompass_ext.outputs import journal_path, parts_on_disk
from opencompass_ext.predictions.final_file import identities_of, read_final
from opencompass_ext.predictions.journal import Journal, JournalRows, Row


def rows_elsewhere(
    predictions: Path, own_path: Path, row_keys: Sequence[str], first_row: int
) -> JournalRows:
    """Return rows with these keys that stand anywhere but in ``own_path``, by index from 0.

    Args:
        predictions: The file of the whole dataset.
        own_path: The file that they are looked for.
        row_keys: One key per row.
        first_row: Number of the first of these rows in the dataset.
    """
    stop = first_row + len(row_keys)
    found = JournalRows({}, {})
    for path, (first, last) in {predictions: (0, stop), **parts_on_disk(predictions)}.items():
        if path == own_path or last <= first_row or first >= stop:
            continue
        # What is being written just now is read as far as it has come.
        journal = Journal(journal_path(path), row_keys, first_row).read(is_own=False)
        found.whole.update({**_rows_at(path, first, row_keys, first_row), **journal.whole})
        for i, part in journal.parts.items():
            found.parts.setdefault(i, {}).update(part)
    return found


def _rows_at(path: Path, first: int, row_keys: Sequence[str], first_row: int) -> dict[int, Row]:
    """Return those rows that stand in a finished file, which begins with row ``first``."""
    identities = identities_of(path)
    if identities is None:
        return {}
    shift = first_row - first
    wanted = [
        i
        for i, key in enumerate(row_keys)
        if 0 <= i + shift < len(identities.row_keys) and identities.row_keys[i + shift] == key
    ]
    rows = read_final(path, first) if wanted else []
    return {i: rows[i + shift] for i in wanted}
