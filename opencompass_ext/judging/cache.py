"""Usable replies of a judge, kept over runs: one SQLite table, JSON only.

The key is the hash of everything that can change the answer: endpoint, model, settings, prompt and
its version. Only replies that could be used are kept, so a failure is never given again.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from opencompass_ext.errors import OutputError
from opencompass_ext.judging.base import Call, Reply

# Another process that writes makes this one wait, not fail.
_BUSY_SECONDS = 60.0
_TABLE = """
CREATE TABLE IF NOT EXISTS replies (
    request TEXT PRIMARY KEY, kind TEXT NOT NULL, messages TEXT NOT NULL, reply TEXT NOT NULL,
    served_as TEXT, time TEXT NOT NULL
) WITHOUT ROWID
"""


class ReplyCache:
    """Replies by the hash of their request.

    Args:
        path: The database file; made when it is not there. Several processes may share it.

    Raises:
        OutputError: It cannot be opened or is no such database.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        try:
            # Readers go on while one writes. A power cut may lose the last replies, never the file.
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(_TABLE)
        except sqlite3.Error as error:
            self.close()
            raise self._unusable(error) from error

    def find(self, key: str) -> Reply | None:
        """Return the reply to a request; None if there is none.

        Raises:
            OutputError: The database cannot be read, or holds something else than a reply.
        """
        try:
            found = self._database.execute(
                "SELECT reply FROM replies WHERE request = ?", (key,)
            ).fetchone()
            return None if found is None else Reply(**json.loads(found[0]))
        # The last two: a file of another version, or one that something else wrote to.
        except (sqlite3.Error, TypeError, ValueError) as error:
            raise self._unusable(error) from error

    def add(self, key: str, call: Call, reply: Reply) -> None:
        """Keep a reply that could be used.

        Raises:
            OutputError: The database cannot be written.
        """
        said = {name: value for name, value in asdict(reply).items() if name != "earlier"}
        row = (
            key,
            call.kind,
            _to_text(list(call.messages)),
            _to_text(said),
            reply.served_as,
            datetime.now().isoformat(timespec="seconds"),
        )
        try:
            self._database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _unusable(self, error: Exception) -> OutputError:
        return OutputError(
            f"cannot use the judge's cache {self.path}: {error}. Move the file away, name another, "
            "or do without (cache=None); the transcript of the run is kept apart from it"
        )


def _to_text(value: object) -> str:
    # Escapes keep half surrogate pairs, which have no UTF-8 form, out of the database.
    return json.dumps(value, ensure_ascii=True, allow_nan=False)
