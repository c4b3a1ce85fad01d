"""Events that one thread hands to another, which waits for them with ``select``."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from opencompass_ext.tasks.protocol import Event, event_from_line

_READ_BYTES = 1 << 16


class Inbox:
    r"""A place for what a worker on another machine has said.

    Attributes:
        descriptor: File descriptor that is readable when something has come in.

    Example:
        >>> inbox = Inbox()
        >>> inbox.put(b'{"event": "Done", "sta')
        >>> inbox.take()
        []
        >>> inbox.put(b'tus": "reused"}\n')
        >>> inbox.take()
        [Done(status='reused')]
        >>> inbox.close()
    """

    def __init__(self) -> None:
        self.descriptor, self._bell = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._bell, False)
        self._lock = threading.Lock()
        self._unread = b""
        self._is_closed = False

    def put(self, data: bytes) -> None:
        """Hand over lines of events, or pieces of lines, in their order."""
        with self._lock:
            self._unread += data
        self.ring()

    def ring(self) -> None:
        """Make the descriptor readable, also without an event."""
        with self._lock:
            if not self._is_closed:
                # A pipe that is full is readable already.
                with suppress(BlockingIOError):
                    os.write(self._bell, b"!")

    def take(self) -> list[Event]:
        """Return the events that are complete, and be silent until there is more."""
        with suppress(BlockingIOError):
            while os.read(self.descriptor, _READ_BYTES):
                pass
        with self._lock:
            *lines, self._unread = self._unread.split(b"\n")
        return [event_from_line(line) for line in lines]

    def close(self) -> None:
        """Free the descriptors. What is put in later is dropped."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._bell)
                os.close(self.descriptor)
