"""Writing a config as a Python file, without its secrets."""

from __future__ import annotations

import os
import pprint
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HIDDEN_SECRET = "<secret, not written>"

_SECRET_KEY = re.compile(
    r"(.*[_-])?(api[_-]?key|secret|secret[_-]key|password|authorization)"
    r"|key|token|(hf|auth|access|bearer|api)[_-]token",
    re.IGNORECASE,
)
_ENVIRONMENT_NAME = re.compile(r"ENV|[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")


def hide_secrets(config: Any) -> Any:
    """Return a copy of a config whose literal secrets are replaced by ``HIDDEN_SECRET``.

    A secret is a text under a key such as ``key``, ``api_key``, ``openai_api_key``, ``token``,
    ``hf_token``, ``access_token``, ``secret``, ``password`` or ``Authorization``, alone or in a
    list. It is hidden there and wherever else the config holds the same text. The *name* of an
    environment variable is no secret and stays: ``ENV``, or capitals with an underscore such as
    ``OPENAI_API_KEY``. Tokenizer settings (``pad_token``, ``ice_token``) are no secrets.

    Example:
        >>> hide_secrets({"key": "sk-123", "pad_token": "</s>"})
        {'key': '<secret, not written>', 'pad_token': '</s>'}
        >>> hide_secrets({"api_key": "OPENAI_API_KEY"})
        {'api_key': 'OPENAI_API_KEY'}
    """
    return _replace(config, frozenset(_find_secrets(config)))


def format_config(config: Mapping[str, Any]) -> str:
    """Return a config as Python source: one assignment for each key, secrets hidden.

    Loading the text gives an equal config, except for hidden secrets.

    Example:
        >>> print(format_config({"work_dir": "out", "models": []}), end="")
        work_dir = 'out'
        models = []
    """
    lines = []
    for name, value in hide_secrets(dict(config)).items():
        text = pprint.pformat(value, width=100 - len(name) - 3, sort_dicts=False)
        lines.append(f"{name} = {_with_brackets(text)}\n")
    return "".join(lines)


def dump_config(config: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a config as a Python file that loads back equal, without its secrets."""
    Path(path).write_text(format_config(config), encoding="utf-8")


def _with_brackets(text: str) -> str:
    # pprint breaks a long text into adjacent literals, which need brackets at the top level.
    return f"({text})" if "\n" in text and text[0] in "'\"" else text


def _find_secrets(config: Any, is_secret: bool = False) -> list[str]:
    if isinstance(config, Mapping):
        return [
            secret
            for key, value in config.items()
            for secret in _find_secrets(value, bool(_SECRET_KEY.fullmatch(key)))
        ]
    if isinstance(config, list):
        return [secret for item in config for secret in _find_secrets(item, is_secret)]
    is_literal = isinstance(config, str) and config and not _ENVIRONMENT_NAME.fullmatch(config)
    return [config] if is_secret and is_literal else []


def _replace(config: Any, secrets: frozenset[str]) -> Any:
    if isinstance(config, Mapping):
        return {key: _replace(value, secrets) for key, value in config.items()}
    if isinstance(config, list):
        return [_replace(item, secrets) for item in config]
    return HIDDEN_SECRET if isinstance(config, str) and config in secrets else config
