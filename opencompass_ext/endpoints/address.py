"""Where an endpoint is, and the key for it: from the config and the environment, checked."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlsplit

from opencompass_ext.errors import ConfigError, ModelError

BASE_URL_VARIABLE = "OPENAI_BASE_URL"
MODEL_VARIABLE = "OPENAI_MODEL"


def checked_base_url(given: str | None, endpoint: str, key: str = "base_url") -> str:
    """Return the URL that endpoint names are appended to, without a slash at its end.

    Args:
        given: What the config says; None for what the environment says.
        endpoint: What will be appended, such as ``"/completions"``.
        key: Name of the config key, for errors.

    Raises:
        ConfigError: It is no URL, or has parts it must not have.
        ModelError: There is none, neither given nor in the environment of this machine.

    Example:
        >>> checked_base_url("http://localhost:8000/v1/", "/completions")
        'http://localhost:8000/v1'
    """
    source = key if given is not None else f"the environment variable {BASE_URL_VARIABLE}"
    url = given if given is not None else os.environ.get(BASE_URL_VARIABLE)
    if not url:
        raise ModelError(
            "nothing says where the endpoint is: set the environment variable "
            f"{BASE_URL_VARIABLE}, or {key} in the config, to a URL such as "
            "'http://localhost:8000/v1'"
        )
    # urlsplit drops line breaks and tabs, which an HTTP client then refuses.
    if any(c.isspace() or not c.isprintable() for c in url):
        raise ConfigError(f"{source} must hold neither blanks nor line breaks, got {url!r}")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"{source} is no URL: {error}") from error
    # Checked first: a password must not reach the other errors.
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            f"{source} must have neither a user name or password nor a part after '?' or '#': the "
            "key is read from the environment variable that key_env names"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{source} must begin with http:// or https:// and a host, got {url!r}")
    base_url = url.rstrip("/")
    if base_url.endswith(endpoint):
        raise ConfigError(
            f"{source} must end before {endpoint!r}, which is appended to it, got {url!r}"
        )
    return base_url


def checked_model_name(given: str | None, key: str = "model") -> str:
    """Return the name of a model as its server knows it.

    Args:
        given: What the config says; None for what the environment says.
        key: Name of the config key, for errors.

    Raises:
        ConfigError: It is no name.
        ModelError: There is none, neither given nor in the environment of this machine.
    """
    name = os.environ.get(MODEL_VARIABLE) or None if given is None else given
    if name is None:
        raise ModelError(
            f"nothing says which model to ask: set the environment variable {MODEL_VARIABLE}, or "
            f"{key} in the config, to the name it is served under (and {BASE_URL_VARIABLE} to the "
            "URL of the endpoint, where the config does not say)"
        )
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{key} must be the name a model is served under, got {name!r}")
    return name


def check_key_env(value: Any) -> None:
    """Check that ``key_env`` names an environment variable.

    Raises:
        ConfigError: It does not. The value is not repeated: it may be the key itself.
    """
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ConfigError(
            "key_env must be the name of an environment variable that holds the key, such as "
            "'OPENAI_API_KEY', never the key itself"
        )


def check_seconds(**values: Any) -> None:
    """Check that each value is a number of seconds above 0.

    Raises:
        ConfigError: One is not.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ConfigError(f"{name} must be a number of seconds above 0, got {value!r}")


def read_key(variable: str) -> str | None:
    """Return the key in an environment variable; None if it is not set.

    Raises:
        ModelError: What it holds is no key. It is not repeated.
    """
    key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelError(
            f"the environment variable {variable} holds no key: a key has only printable ASCII "
            f"characters and no blank; it has {len(key)} characters"
        )
    return key or None
