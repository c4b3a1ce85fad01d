"""What the judge's answers cost, by kind of question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opencompass_ext.judging.base import Reply

ORIGINS = ("judge", "cache", "transcript")


@dataclass
class _Sum:
    calls: int = 0
    attempts: int = 0
    without_reply: int = 0
    without_usage: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, reply: Reply) -> None:
        self.calls += 1
        self.attempts += reply.attempts
        self.without_reply += reply.text is None
        if reply.input_tokens is None or reply.output_tokens is None:
            self.without_usage += 1
        else:
            self.input_tokens += reply.input_tokens
            self.output_tokens += reply.output_tokens

    def to_row(self) -> dict[str, Any]:
        is_unknown = self.calls > 0 and self.without_usage == self.calls
        return {
            "calls": self.calls,
            "attempts": self.attempts,
            "calls_without_reply": self.without_reply,
            "calls_without_usage": self.without_usage,
            "input_tokens": "unknown" if is_unknown else self.input_tokens,
            "output_tokens": "unknown" if is_unknown else self.output_tokens,
        }


@dataclass
class Usage:
    """Sums of calls and tokens, by kind of question and by where the reply came from."""

    _sums: dict[str, dict[str, _Sum]] = field(default_factory=dict)

    def add(self, kind: str, origin: str, reply: Reply) -> None:
        """Count one reply; ``origin`` is one of ``ORIGINS``."""
        by_origin = self._sums.setdefault(kind, {name: _Sum() for name in ORIGINS})
        by_origin[origin].add(reply)

    def to_rows(self) -> Mapping[str, Mapping[str, Any]]:
        """Return ``{kind: {origin: sums}}``.

        Token counts are ``"unknown"`` where no reply told them; where only some did not,
        ``calls_without_usage`` says how many the sums leave out. Only what came from the judge was
        paid for by this run.

        Example:
            >>> usage = Usage()
            >>> usage.add("covers", "judge", Reply("{}", input_tokens=7, output_tokens=2))
            >>> usage.to_rows()["covers"]["judge"]["input_tokens"]
            7
        """
        return {
            kind: {origin: total.to_row() for origin, total in by_origin.items() if total.calls}
            for kind, by_origin in sorted(self._sums.items())
        }
