"""What a runner and its workers say to each other: one JSON object per line.

Runner to worker, on the worker's standard input: an assignment. End of input means: end after the
rows in hand are safe. Worker to runner, on a pipe of its own (whatever native code prints to the
standard output must not be mistaken for it): events about the assignment in hand.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from opencompass_ext.errors import ModelLoadError, OpenCompassExtError
from opencompass_ext.records import RowRange, TaskSpec

EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Assignment:
    """One task of one model and one dataset, and where its output goes."""

    spec: TaskSpec
    log: str

    def to_line(self) -> bytes:
        """Return the message."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Assignment:
        """Return what ``to_line`` was called on."""
        message = json.loads(line)
        spec = message["spec"]
        datasets = tuple(spec["datasets"])
        rows = tuple(None if part is None else RowRange(*part) for part in spec["rows"])
        return cls(TaskSpec(**{**spec, "datasets": datasets, "rows": rows}), message["log"])


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has started and waits for its first assignment. The first event of a worker."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """Rows are safe on disk. ``tokens_done`` counts from the start of the task."""

    rows_done: int
    rows_total: int
    tokens_done: int


@dataclass(frozen=True, slots=True)
class Done:
    """The task has ended well; ``status`` is what its ``run`` returned."""

    status: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The task has raised.

    Attributes:
        error: One line.
        is_users: The user can mend it, so that doing the same again leads nowhere. Otherwise the
            worker ends after this event: the process may be in a state in which all would fail.
        is_models: The model cannot be loaded: whatever needs it fails alike.
    """

    error: str
    is_users: bool
    is_models: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A message that is for the user's eyes as well as for the log.

    Attributes:
        level: As in ``logging``.
        text: The message.
    """

    level: int
    text: str


Event = Ready | Progressed | Done | Failed | Said
_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Ready, Progressed, Done, Failed, Said)
}


def event_to_line(event: Event) -> bytes:
    r"""Return the message for an event.

    Example:
        >>> event_to_line(Done("reused"))
        b'{"event": "Done", "status": "reused"}\n'
    """
    return json.dumps({"event": type(event).__name__, **asdict(event)}).encode() + b"\n"


def event_from_line(line: bytes) -> Event:
    """Return what ``event_to_line`` was called on."""
    message: dict[str, Any] = json.loads(line)
    return _KINDS[message.pop("event")](**message)


def failure(error: Exception) -> Failed:
    """Return the event for an exception, with its message on one line.

    Example:
        >>> failure(ZeroDivisionError("division by zero"))
        Failed(error='ZeroDivisionError: division by zero', is_users=False, is_models=False)
    """
    if isinstance(error, OpenCompassExtError):
        is_models = isinstance(error, ModelLoadError)
        return Failed(" ".join(str(error).split()), is_users=True, is_models=is_models)
    first_line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    name = type(error).__name__
    return Failed(error=f"{name}: {first_line}" if first_line else name, is_users=False)
