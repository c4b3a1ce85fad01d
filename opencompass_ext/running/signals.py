"""What Ctrl-C and SIGTERM do to a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def counted_interrupts() -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM instead of letting them break off the code at any place."""
    interrupts: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # no other gets signals
        for which in (signal.SIGINT, signal.SIGTERM):
            # What the shell lets a job ignore, it ignores.
            if signal.getsignal(which) is not signal.SIG_IGN:
                before[which] = signal.signal(which, note)
    try:
        yield interrupts
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


@contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM within the block do what Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # no other gets signals
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
