"""From what a config file computed to plain JSON values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import PurePath
from types import FunctionType
from typing import Any

from opencompass_ext.config.names import NamedObject

# The sections of a config; any other variable at the top level of a file is a helper.
SECTIONS = (
    "models",
    "datasets",
    "infer",
    "eval",
    "summarizer",
    "work_dir",
    "model_dataset_combinations",
)

_DATA = (dict, list, tuple, str, int, float, type(None))


class NotDataError(ValueError):
    """A value of a config is not data.

    Attributes:
        key_path: Where it is, such as ``models[0].path``.
    """

    def __init__(self, key_path: str, message: str) -> None:
        super().__init__(f"{key_path} {message}")
        self.key_path = key_path


def plain_config(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that are data, as plain JSON values.

    A helper that is not data (a module, a function, a class, an open file) is left out. Inside a
    list or dict, and as a section of the config, it is an error.

    Raises:
        NotDataError: A value is not data.

    Example:
        >>> plain_config({"models": ({"type": NamedObject("a.B")},), "f": len})
        {'models': [{'type': 'a.B'}]}
    """
    return {
        name: _plain(value, name)
        for name, value in variables.items()
        if name in SECTIONS or (not name.startswith("_") and isinstance(value, _DATA))
    }


def _plain(value: Any, key_path: str) -> Any:
    if isinstance(value, dict):
        return _plain_dict(value, key_path)
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{key_path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise NotDataError(key_path, f"is {value}, and JSON files have no such number")
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return None
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, NamedObject):
        return _named(value, key_path)
    if isinstance(value, type):
        return _class_path(value, key_path)
    raise NotDataError(key_path, f"holds {_describe(value)}, and a config holds only data")


def _plain_dict(value: dict[Any, Any], key_path: str) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    # dict.items: that of mmengine's ConfigDict would import what is only named.
    for key, item in dict.items(value):
        name = _key_name(key, key_path)
        if name in plain:
            raise NotDataError(key_path, f"has the key {name!r} twice, once as text")
        plain[name] = _plain(item, f"{key_path}.{name}")
    return plain


def _key_name(key: Any, key_path: str) -> str:
    """Return a dict key as JSON writes it: numbers become text."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    if isinstance(key, (int, float)):
        return repr(key)
    raise NotDataError(key_path, f"has the key {key!r}, and keys must be text or numbers")


def _named(value: NamedObject, key_path: str) -> str:
    """Return the path of a named object, if all that it can be meant as is a name."""
    root, key = re.split(r"[.\[]", key_path)[0], key_path.rpartition(".")[2]
    is_helper = root not in SECTIONS and not root.endswith("_datasets")
    # 'torch' is for dtypes such as torch.bfloat16, which models know by that name.
    if is_helper or key == "type" or value.path.startswith("torch."):
        return value.path
    raise NotDataError(
        key_path,
        f"is the imported object {value.path}, which a config only names, and does so as a 'type'. "
        "A text, list or dict of another config file is imported inside 'with read_base():'",
    )


def _class_path(value: type, key_path: str) -> str:
    if value.__module__ == "__config__" or "<locals>" in value.__qualname__:
        raise NotDataError(
            key_path,
            f"is the class {value.__qualname__}, defined in the config itself, where no worker "
            "process can import it: move it to a module beside the config and write "
            f"'from my_module import {value.__name__}'",
        )
    return f"{value.__module__}.{value.__qualname__}"


def _describe(value: Any) -> str:
    if isinstance(value, FunctionType):
        return "a lambda" if value.__name__ == "<lambda>" else f"the function {value.__name__}"
    return f"{value!r} ({type(value).__name__})"
