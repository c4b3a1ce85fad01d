"""The record of all that a judge was asked and said, and how it is given again without a call.

One JSON line per reply, appended as it comes::

    {"request": "9f2c...", "kind": "supported", "prompt_version": "...", "part": [1, 1],
     "units": [1, 2], "messages": [...], "max_tokens": 1024, "reply": "...",
     "finish_reason": "stop", "parsed": [...], "problem": null, "reason": null, "message": null,
     "usage": {...}, "seconds": 0.8, "attempts": 1, "from": "judge", "served_as": "...",
     "reply_format": "...", "time": "2026-01-01T12:00:00"}

``problem`` says why a reply could not be used; ``reason`` and ``message`` why none came. A request
that got no reply is asked again by the next run; so is one whose reply a lower limit than that
run's has cut, or may have cut as nothing says that it is whole. Every other one is not.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from opencompass_ext import locking
from opencompass_ext.errors import OutputError
from opencompass_ext.judging.base import Call, Reply
from opencompass_ext.writing import sync_folder, to_json, writing

logger = logging.getLogger(__name__)

# A process that holds the transcript and gets no reply for so long is taken to be stuck: requests
# to an endpoint have a deadline of ten minutes.
IDLE_SECONDS = 900.0


class Transcript:
    """Replies of earlier runs, by request, and a place for those of this one.

    Holds where each reply lies, not the replies: a long run takes no more memory for it than a
    few bytes a request.

    Args:
        path: The file; it need not exist. A torn last line, left by a kill, is cut off.

    One process at a time has it: another waits, as long as replies keep coming, and then finds
    them here.

    Raises:
        OutputError: The file cannot be read or written, or another process does not let go of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[bytes, int] = {}
        self._end = 0
        self._lock_path = path.with_suffix(".lock")
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = locking.acquire(self._lock_path, path, path, idle_seconds=IDLE_SECONDS)
        if lock is None:
            raise OutputError(
                f"another process is judging into {path} (it holds {self._lock_path}) and has kept "
                f"nothing for {IDLE_SECONDS:.0f} s: end it, or start a new run without -r"
            )
        self._lock = lock
        try:
            with writing(path):
                is_new = not path.exists()
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
                if is_new:
                    sync_folder(path.parent)
                self._read()
        except BaseException:
            locking.release(self._lock, self._lock_path)
            raise

    def find(self, key: str, max_tokens: int) -> Reply | None:
        """Return the last reply to a request.

        None if there is none yet, or only one under a lower limit than ``max_tokens`` that is not
        known to be whole.
        """
        place = self._places.get(bytes.fromhex(key))
        if place is None:
            return None
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(place)
            row = json.loads(file.readline())
        # Only "length" says that it was cut; a reply that could be used was whole all the same.
        is_whole = row["finish_reason"] in ("stop", "bound") or row["problem"] is None
        return _to_reply(row) if is_whole or row["max_tokens"] >= max_tokens else None

    def add(
        self, key: str, call: Call, reply: Reply, *, source: str, parsed: Any, problem: str | None
    ) -> None:
        """Append one reply; it is with the system when this returns.

        Args:
            key: Hash of the request.
            call: What was asked.
            reply: What came back, or why nothing did.
            source: ``"judge"`` or ``"cache"``.
            parsed: What was understood.
            problem: Why it could not be used.
        """
        row = {
            "request": key,
            "kind": call.kind,
            "prompt_version": call.prompt_version,
            "part": list(call.part),
            "units": [unit.id for unit in call.units],
            "messages": list(call.messages),
            "max_tokens": call.max_tokens,
            "reply": reply.text,
            "finish_reason": reply.finish_reason,
            "parsed": parsed,
            "problem": problem,
            "reason": reply.reason,
            "message": reply.message,
            "usage": {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens},
            "seconds": round(reply.seconds, 3),
            "attempts": reply.attempts,
            "from": source,
            "served_as": reply.served_as,
            "reply_format": reply.reply_format,
            "time": datetime.now().isoformat(timespec="seconds"),
        }
        line = to_json(row) + b"\n"
        with writing(self.path, "the replies so far are kept"):
            try:
                _write_all(self._descriptor, line)
            except OSError:
                # Else the next line would be glued to the torn one, and both be lost.
                os.ftruncate(self._descriptor, self._end)
                raise
        if reply.text is not None:
            self._places[bytes.fromhex(key)] = self._end
        self._end += len(line)

    def close(self) -> None:
        """Put everything on disk and close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        with writing(self.path):
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
                locking.release(self._lock, self._lock_path)

    def _read(self) -> None:
        damaged = 0
        with open(self._descriptor, "rb", closefd=False) as file:
            for line in file:
                if not line.endswith(b"\n"):
                    logger.warning("%s: torn last line dropped", self.path)
                    break
                row = _parse(line)
                if row is None:
                    damaged += 1
                elif row["reply"] is not None:
                    self._places[bytes.fromhex(row["request"])] = self._end
                self._end += len(line)
        os.ftruncate(self._descriptor, self._end)
        if damaged:
            logger.warning("%s: %d damaged lines left out; asked again", self.path, damaged)


def _parse(line: bytes) -> Mapping[str, Any] | None:
    try:
        row = json.loads(line)
        bytes.fromhex(row["request"])
        _to_reply(row)
        int(row["max_tokens"])
    except (ValueError, KeyError, TypeError):
        return None
    return row if isinstance(row["reply"], (str, type(None))) else None


def _to_reply(row: Mapping[str, Any]) -> Reply:
    return Reply(
        text=row["reply"],
        finish_reason=row["finish_reason"],
        input_tokens=row["usage"]["input_tokens"],
        output_tokens=row["usage"]["output_tokens"],
        seconds=row["seconds"],
        attempts=row["attempts"],
        served_as=row["served_as"],
        reply_format=row["reply_format"],
    )


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
