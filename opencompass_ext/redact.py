"""Keys and tokens stay out of everything that is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN_SECRET = "<secret, not written>"

_SECRET_KEY = re.compile(
    r"(.*[_-])?(api[_-]?key|secret|secret[_-]key|password|authorization)"
    r"|key|token|(hf|auth|access|bearer|api)[_-]token",
    re.IGNORECASE,
)
_ENVIRONMENT_NAME = re.compile(r"ENV|[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")


def hide_secrets(values: Any, secrets_of: Any = None) -> Any:
    """Return a copy of plain values in which literal secrets are replaced by ``HIDDEN_SECRET``.

    A secret is a text under a key such as ``key``, ``api_key``, ``openai_api_key``, ``token``,
    ``hf_token``, ``access_token``, ``secret``, ``password`` or ``Authorization``, alone or in a
    list. It is hidden there and wherever else the same text stands. The *name* of an environment
    variable is no secret and stays: ``ENV``, or capitals with an underscore such as
    ``OPENAI_API_KEY``. Tokenizer settings (``pad_token``, ``ice_token``) are no secrets.

    Args:
        values: A config, or anything made of dicts, lists, text and numbers.
        secrets_of: Further values; what is a secret there is hidden too.

    Example:
        >>> hide_secrets({"key": "sk-123", "pad_token": "</s>"})
        {'key': '<secret, not written>', 'pad_token': '</s>'}
        >>> hide_secrets({"api_key": "OPENAI_API_KEY"})
        {'api_key': 'OPENAI_API_KEY'}
    """
    return _replace(values, frozenset(_find([values, secrets_of])))


def _find(values: Any, is_secret: bool = False) -> list[str]:
    if isinstance(values, Mapping):
        return [
            secret
            for key, value in values.items()
            for secret in _find(value, bool(_SECRET_KEY.fullmatch(str(key))))
        ]
    if isinstance(values, (list, tuple)):
        return [secret for item in values for secret in _find(item, is_secret)]
    is_literal = isinstance(values, str) and values and not _ENVIRONMENT_NAME.fullmatch(values)
    return [values] if is_secret and is_literal else []


def _replace(values: Any, secrets: frozenset[str]) -> Any:
    if isinstance(values, Mapping):
        return {key: _replace(value, secrets) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [_replace(item, secrets) for item in values]
    return HIDDEN_SECRET if isinstance(values, str) and values in secrets else values
