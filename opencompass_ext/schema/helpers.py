"""Variables at the top level of a config: helpers, or sections with a slip of the pen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opencompass_ext.config.plain import SECTIONS
from opencompass_ext.config.source import loop_variables, source_trees
from opencompass_ext.schema.problems import Problem


def check_helpers(
    config: Mapping[str, Any], sources: Sequence[Path], *, sections: Sequence[str] = SECTIONS
) -> Iterator[Problem]:
    """Yield the variables whose names look like misspelt sections.

    A config may use any helper variable. One that is named almost like a section, such as
    ``workdir``, is taken for a mistake, unless it can be seen to be a helper: it is the variable
    of a loop, or all of it stands in a section already.

    Args:
        config: The config.
        sources: The files it came from.
        sections: The variables that are no helpers.
    """
    helpers = [name for name in config if name not in sections]
    suspects = {name: near for name in helpers if (near := _section_like(name)) is not None}
    if not suspects:
        return
    loops = {
        name for path in sources for _, tree in source_trees(path) for name in loop_variables(tree)
    }
    for name, section in suspects.items():
        if name not in loops and not _is_used(config[name], config, sections):
            yield Problem(
                name,
                f"unknown key, did you mean {section!r}? (If it is a helper, begin its name "
                "with '_')",
                is_unknown_key=True,
            )


def _is_used(value: Any, config: Mapping[str, Any], sections: Sequence[str]) -> bool:
    given = [config[section] for section in sections if section in config]
    entries = [entry for section in given if isinstance(section, list) for entry in section]
    parts = value if isinstance(value, list) and value else [value]
    return value in given or all(part in entries for part in parts)


def _section_like(name: str) -> str | None:
    """Return the section whose name is one slip of the pen away, two for long names.

    Example:
        >>> _section_like("workdir"), _section_like("datset"), _section_like("eval_cfg")
        ('work_dir', 'datasets', None)
    """
    plain_name = name.lower().replace("_", "")
    for section in SECTIONS:
        plain_section = section.replace("_", "")
        # "val" is a likely helper and no likely slip for "eval".
        shortest = len(plain_section) if len(plain_section) <= 5 else 0
        allowed = 1 if len(plain_section) < 8 else 2
        if len(plain_name) >= shortest and _edits(plain_name, plain_section) <= allowed:
            return section
    return None


def _edits(a: str, b: str) -> int:
    """Return how many insertions, deletions, changes and swaps of neighbours turn a into b.

    Example:
        >>> _edits("modles", "models"), _edits("evals", "eval")
        (1, 1)
    """
    two_before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        before, row = row, [i + 1]
        for j, y in enumerate(b):
            cost = min(before[j] + (x != y), before[j + 1] + 1, row[j] + 1)
            if i and j and x == b[j - 1] and a[i - 1] == y:
                cost = min(cost, two_before[j - 1] + 1)
            row.append(cost)
        two_before = before
    return row[-1]
