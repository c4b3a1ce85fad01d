"""Checks of one dict of a config: its keys, their values, and the class its ``type`` names."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from typing import Any

from opencompass_ext.errors import ConfigError, OpenCompassExtError, did_you_mean
from opencompass_ext.redact import HIDDEN_SECRET
from opencompass_ext.registry import Registry
from opencompass_ext.schema.problems import Problem
from opencompass_ext.schema.signatures import NO_KEYS, Key, Keys, constructor_keys, function_keys
from opencompass_ext.schema.values import mismatch


def check_keys(value: Any, keys: Keys, key_path: str) -> Iterator[Problem]:
    """Yield what is wrong with a dict: unknown keys, values of a wrong kind, missing keys."""
    if not isinstance(value, dict):
        yield Problem(key_path, f"must be a dict, got {_shown(value)}")
        return
    for name, item in value.items():
        path = f"{key_path}.{name}"
        if item == HIDDEN_SECRET:
            yield Problem(
                path,
                "the secret was left out when this config was written: name an environment "
                "variable that holds it",
            )
        if name in keys.known:
            expected = _expected(item, keys.known[name])
            if expected is not None:
                yield Problem(path, f"must be {expected}, got {_shown(item)}")
        elif not keys.is_open or difflib.get_close_matches(name, keys.known, cutoff=0.8):
            yield Problem(
                path,
                f"unknown key, {did_you_mean(name, list(keys.known))}",
                is_unknown_key=True,
                is_unread=not keys.is_open,
            )
    for name, key in keys.known.items():
        if key.is_required and name not in value:
            yield Problem(key_path, f"the key {name!r} is missing")


def check_component(
    value: Any,
    registry: Registry,
    key_path: str,
    *,
    beside: Keys = NO_KEYS,
    given: tuple[str, ...] = (),
) -> Iterator[Problem]:
    """Yield what is wrong with a dict that names a class by ``type`` and holds its arguments.

    Args:
        value: The dict.
        registry: Where its type is looked up.
        key_path: Where the dict stands.
        beside: Keys that stand in the dict and are not arguments of the class.
        given: Arguments of the class that the run fills in itself.
    """
    if not isinstance(value, dict) or "type" not in value:
        yield from check_keys(value, Keys({"type": Key(str, is_required=True)}, True), key_path)
        return
    try:
        cls = registry.get(value["type"])
    except ConfigError as error:
        yield Problem(f"{key_path}.type", str(error))
        return
    own = class_keys(cls).without(*given)
    problems = list(check_keys(value, beside | own | Keys({"type": Key()}), key_path))
    yield from problems
    if not problems and not given and is_cheap_to_build(cls):
        arguments = {k: v for k, v in value.items() if k in own.known and k != "type"}
        yield from _try(cls, arguments, key_path)


def is_cheap_to_build(cls: type) -> bool:
    """Return whether a class may be built only to see whether it takes its arguments.

    The classes of this package may, except data sets, which read their rows at once: a model reads
    its weights when it is first asked for a score. Of other classes nothing is known.
    """
    return cls.__module__.startswith("opencompass_ext.") and not hasattr(cls, "load")


def _try(cls: type, arguments: dict[str, Any], key_path: str) -> Iterator[Problem]:
    try:
        cls(**arguments)
    except ConfigError as error:
        yield Problem(key_path, str(error))
    except OpenCompassExtError:
        # Not the config's fault: a file or package that this machine lacks. The run tells, for the
        # task that needs it, and the others go on.
        return


def class_keys(cls: type) -> Keys:
    """Return the config keys that a class takes.

    A dataset class hands the keys its constructor does not know on to its ``load``.
    """
    keys = constructor_keys(cls)
    load = inspect.getattr_static(cls, "load", None)
    if keys.is_open and isinstance(load, staticmethod):
        keys = Keys(keys.known) | function_keys(load.__func__)
    return keys


def check_list(value: Any, key_path: str) -> Iterator[Problem]:
    """Yield what is wrong with ``models`` or ``datasets`` as a list of dicts."""
    if not isinstance(value, list):
        hint = f": write {key_path} = [{key_path.rstrip('s')}]" if isinstance(value, dict) else ""
        yield Problem(key_path, f"must be a list of dicts, got {_shown(value)}{hint}")
        return
    if not value:
        yield Problem(key_path, "is empty: there is nothing to run")
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            hint = ": put a * before the list" if isinstance(item, list) else ""
            yield Problem(f"{key_path}[{i}]", f"must be a dict, got {_shown(item)}{hint}")


def _expected(value: Any, key: Key) -> str | None:
    """Return what was expected if ``value`` is none that ``key`` may have, else None.

    Example:
        >>> _expected(0, Key(int | None, minimum=1))
        'a whole number >= 1'
        >>> _expected(None, Key(int | None, minimum=1)) is None
        True
    """
    expected = mismatch(value, key.annotation)
    if expected is not None or value is None or key.minimum is None or value >= key.minimum:
        return expected
    return f"a whole number >= {key.minimum}"


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{value!r:.80} ({type(value).__name__})"
