"""The problems of a config: found one by one, told all at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a config.

    Attributes:
        key_path: Where, such as ``models[0].run_cfg.num_gpu``; empty for the whole config.
        message: What was expected and what came.
        is_unknown_key: It is a key that is not known, which a run can survive.
        is_unread: Nothing would take that key: a run survives it once it is left out.
    """

    key_path: str
    message: str
    is_unknown_key: bool = False
    is_unread: bool = False


def tell(problems: Iterable[Problem], place: Callable[[str], str]) -> list[str]:
    """Return one line for each problem: ``place: key path: message``.

    Configs are built in loops, so one slip of the pen comes back in many entries of a list:
    problems that differ in nothing but the index share a line.

    Args:
        problems: In the order in which they were found.
        place: Gives the file and line of a key path.

    Example:
        >>> found = [Problem(f"models[{i}].pth", "unknown key") for i in range(3)]
        >>> tell(found, lambda key_path: "eval.py")
        ['eval.py: models[0].pth: unknown key (and in 2 more entries)']
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for problem in problems:
        shape = re.sub(r"\d+", "", problem.key_path)
        key = (place(problem.key_path), shape, problem.message)
        key_paths = groups.setdefault(key, [])
        if problem.key_path not in key_paths:
            key_paths.append(problem.key_path)
    lines = []
    for (where, _, message), key_paths in groups.items():
        more = len(key_paths) - 1
        entries = "entry" if more == 1 else "entries"
        parts = [
            where,
            key_paths[0],
            message + (f" (and in {more} more {entries})" if more else ""),
        ]
        lines.append(": ".join(part for part in parts if part))
    return lines
