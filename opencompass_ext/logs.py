"""Where log messages go. The one place that sets logging up; modules only ask for a logger."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_HANDLER_NAME = "opencompass_ext"


def log_to_stderr(line_format: str = "%(asctime)s %(levelname)s %(name)s: %(message)s") -> None:
    """Send messages to the standard error output as plain lines with their time."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(line_format))
    _install(handler)


def log_to_console(console: Console) -> None:
    """Send messages to a terminal, above its live display; plainly to what is no terminal."""
    if not console.is_terminal:
        log_to_stderr("%(asctime)s %(levelname)s %(message)s")
        return
    from rich.logging import RichHandler

    handler = RichHandler(
        console=console, show_path=False, log_time_format="%H:%M:%S", highlighter=None
    )
    _install(handler)


def pass_messages_on(say: Callable[[int, str], None]) -> None:
    """Also call ``say(level, text)`` for each message of this package, but for those of tasks.

    What a model or the engine has to tell (a licence, a download, a batch that was halved) must
    not lie unread in the log of a worker. How a task went is told by its events.
    """
    handler = _PassOn(say)
    handler.addFilter(lambda record: not record.name.startswith("opencompass_ext.tasks"))
    logging.getLogger("opencompass_ext").addHandler(handler)


class _PassOn(logging.Handler):
    def __init__(self, say: Callable[[int, str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.levelno, record.getMessage())


def _install(handler: logging.Handler) -> None:
    handler.set_name(_HANDLER_NAME)
    root = logging.getLogger()
    for old in [h for h in root.handlers if h.get_name() == _HANDLER_NAME]:
        root.removeHandler(old)
    root.addHandler(handler)
    # Other packages speak only when something is wrong.
    logging.getLogger("opencompass_ext").setLevel(logging.INFO)
