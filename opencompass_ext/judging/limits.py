"""How many requests an endpoint gets: at once, and per minute."""

from __future__ import annotations

import math
import time

import anyio

# Requests that are refused together are one sign, not several.
_ONE_SIGN_SECONDS = 1.0


class AdaptiveLimit:
    """Most requests at once: halved when the server is too busy, then grown again by successes.

    It grows by one for as many successes as there are places, as the congestion window of TCP
    does: a server is asked a little more each round until it objects.

    Args:
        most: Upper bound, and where it starts.

    Example:
        >>> limit = AdaptiveLimit(8)
        >>> limit.shrink()
        >>> limit.now
        4
        >>> for _ in range(4):
        ...     limit.grow()
        >>> limit.now
        5
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.now = most
        self._successes = 0
        self._shrunk_at = -math.inf

    def shrink(self) -> None:
        """Take note that the server was too busy."""
        if time.monotonic() - self._shrunk_at < _ONE_SIGN_SECONDS:
            return
        self._shrunk_at = time.monotonic()
        self.now = max(1, self.now // 2)
        self._successes = 0

    def grow(self) -> None:
        """Take note of an answer."""
        self._successes += 1
        if self._successes >= self.now:
            self.now = min(self.most, self.now + 1)
            self._successes = 0


class RateLimit:
    """Spaces requests evenly, so that no minute has more than ``per_minute``.

    Args:
        per_minute: Requests a minute; None for no limit.
    """

    def __init__(self, per_minute: int | None) -> None:
        self._interval = 0.0 if per_minute is None else 60.0 / per_minute
        self._next = 0.0

    async def wait(self) -> None:
        """Return when the next request may be sent."""
        if not self._interval:
            return
        now = anyio.current_time()
        start = max(now, self._next)
        self._next = start + self._interval
        await anyio.sleep(start - now)
