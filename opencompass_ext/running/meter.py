"""How fast rows are being done, and how long the others will take."""

from __future__ import annotations

from typing import Any


class Meter:
    """How fast the rows of one pair are being done.

    Rows that an earlier run had finished are not counted as speed.

    Args:
        now: Seconds on some clock.

    Example:
        >>> meter = Meter(now=0.0)
        >>> meter.update(rows_done=40, rows_total=100, tokens_done=0, now=2.0)
        >>> meter.update(rows_done=60, rows_total=100, tokens_done=1000, now=12.0)
        >>> meter.rows, meter.speed, meter.time_left
        ('60/100 rows', '100 tokens/s', '0:20 left')
    """

    def __init__(self, now: float) -> None:
        self._begun_at = now
        self._updated_at = now
        self._rows_before: int | None = None
        self._rows_done = 0
        self._rows_total = 0
        self._tokens_done = 0

    def update(self, rows_done: int, rows_total: int, tokens_done: int, now: float) -> None:
        """Take in what is done by now."""
        if self._rows_before is None:
            # Whether the first report comes before or after the first batch shows in its tokens.
            self._rows_before = rows_done if tokens_done == 0 else 0
            if tokens_done == 0:
                self._begun_at = now
        self._rows_done, self._rows_total, self._tokens_done = rows_done, rows_total, tokens_done
        self._updated_at = now

    @property
    def fraction(self) -> float:
        """Share of the rows that is done, 0 to 1."""
        return self._rows_done / self._rows_total if self._rows_total else 0.0

    @property
    def fraction_before(self) -> float:
        """Share of the rows that an earlier run had done."""
        return (self._rows_before or 0) / self._rows_total if self._rows_total else 0.0

    @property
    def rows(self) -> str:
        """Rows done and in all."""
        return f"{self._rows_done}/{self._rows_total} rows"

    @property
    def tokens_per_second(self) -> float | None:
        """How fast tokens are read, None while unknown."""
        seconds = self._updated_at - self._begun_at
        return self._tokens_done / seconds if seconds > 0 and self._tokens_done else None

    @property
    def seconds_left(self) -> float | None:
        """Time that the other rows will take at this speed, None while unknown."""
        newly_done = self._rows_done - (self._rows_before or 0)
        if newly_done <= 0:
            return None
        seconds = self._updated_at - self._begun_at
        return (self._rows_total - self._rows_done) * seconds / newly_done

    @property
    def speed(self) -> str:
        """Tokens per second, or nothing while unknown."""
        speed = self.tokens_per_second
        return "" if speed is None else f"{speed:.0f} tokens/s"

    @property
    def time_left(self) -> str:
        """Time left, or nothing while unknown."""
        return "" if self.seconds_left is None else f"{clock(self.seconds_left)} left"

    def as_json(self) -> dict[str, Any]:
        """Return the numbers for programs."""
        return {
            "rows_done": self._rows_done,
            "rows_total": self._rows_total,
            "tokens_per_second": self.tokens_per_second,
            "seconds_left": self.seconds_left,
        }


def clock(seconds: float) -> str:
    """Return a duration for people.

    Example:
        >>> clock(59.6), clock(3700)
        ('1:00', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
