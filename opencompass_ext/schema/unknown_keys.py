"""A config without the keys that nothing reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from opencompass_ext.schema.check import problems_of


def without_unknown_keys(config: Mapping[str, Any], mode: str = "all") -> dict[str, Any]:
    """Return a config without the unknown keys that ``check_config(strict=False)`` warned of.

    A class refuses an argument that it does not know, so a warning alone would put off the error.
    Keys stay that a class of the user's own may hand on.

    Args:
        config: The config, in which nothing else is wrong.
        mode: See ``check_config``.
    """
    unread = {problem.key_path for problem in problems_of(config, (), mode) if problem.is_unread}
    known = _without(config, "", unread)
    # The entries of combinations are, as a rule, those of the two lists: told of there alone.
    for group in known.get("model_dataset_combinations") or ():
        for section in ("models", "datasets"):
            given = config[section]
            group[section] = [
                known[section][given.index(entry)] if entry in given else entry
                for entry in group[section]
            ]
    return known


def _without(value: Any, key_path: str, unread: Collection[str]) -> Any:
    if isinstance(value, Mapping):
        paths = {key: f"{key_path}.{key}" if key_path else key for key in value}
        return {
            key: _without(item, paths[key], unread)
            for key, item in value.items()
            if paths[key] not in unread
        }
    if isinstance(value, list):
        return [_without(item, f"{key_path}[{i}]", unread) for i, item in enumerate(value)]
    return value
