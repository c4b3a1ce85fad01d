"""Writing a config as a Python file, without its secrets."""

from __future__ import annotations

import os
import pprint
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opencompass_ext.redact import hide_secrets


def format_config(config: Mapping[str, Any], secrets_of: Mapping[str, Any] | None = None) -> str:
    """Return a config as Python source: one assignment for each key, secrets hidden.

    Loading the text gives an equal config, except for what ``hide_secrets`` hides.

    Args:
        config: The config.
        secrets_of: The config it was made from, whose secrets are hidden too.

    Example:
        >>> print(format_config({"work_dir": "out", "models": []}), end="")
        work_dir = 'out'
        models = []
    """
    lines = []
    for name, value in hide_secrets(dict(config), secrets_of).items():
        text = pprint.pformat(value, width=100 - len(name) - 3, sort_dicts=False)
        lines.append(f"{name} = {_with_brackets(text)}\n")
    return "".join(lines)


def dump_config(config: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a config as a Python file that loads back equal, without its secrets."""
    Path(path).write_text(format_config(config), encoding="utf-8")


def _with_brackets(text: str) -> str:
    # pprint breaks a long text into adjacent literals, which need brackets at the top level.
    return f"({text})" if "\n" in text and text[0] in "'\"" else text
