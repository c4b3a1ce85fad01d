"""How a place in a config file is written in an error."""

from __future__ import annotations

from pathlib import Path


def where(path: Path, line: int | None = None) -> str:
    """Return ``file:line``, the file relative to the working folder if it lies below it.

    Example:
        >>> where(Path.cwd() / "examples" / "eval.py", 3)
        'examples/eval.py:3'
    """
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return str(shown) if line is None else f"{shown}:{line}"
