"""What a class or function takes, read from its signature: the schema nobody has to write twice."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Key:
    """One key a dict of the config may have.

    Attributes:
        annotation: The type of its value, in Python's annotations; ``Any`` when not known.
        is_required: It has no default.
        minimum: The least number it may be; None for no bound.
    """

    annotation: Any = Any
    is_required: bool = False
    minimum: int | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys a dict of the config may have.

    Attributes:
        known: Key name -> what is known of it.
        is_open: Other keys are taken too, and handed on to code that cannot be looked into.
    """

    known: Mapping[str, Key] = field(default_factory=dict)
    is_open: bool = False

    def __or__(self, other: Keys) -> Keys:
        return Keys({**self.known, **other.known}, self.is_open or other.is_open)

    def without(self, *names: str) -> Keys:
        """Return the keys except ``names``."""
        return Keys({k: v for k, v in self.known.items() if k not in names}, self.is_open)


NO_KEYS = Keys()


def constructor_keys(cls: type) -> Keys:
    """Return the arguments of a class's constructor.

    Where a constructor takes ``**kwargs``, the arguments of the next one in the order of
    inheritance join, and so on. Only what the class's own constructor requires is required.

    Example:
        >>> class Base:
        ...     def __init__(self, path: str, seed: int = 0) -> None: ...
        >>> class Mine(Base):
        ...     def __init__(self, rows: int, **kwargs) -> None: ...
        >>> keys = constructor_keys(Mine)
        >>> list(keys.known), keys.is_open, keys.known["rows"].is_required
        (['rows', 'path', 'seed'], False, True)
    """
    known: dict[str, Key] = {}
    is_own = True
    for ancestor in cls.__mro__[:-1]:  # the last is object
        if "__init__" not in vars(ancestor):
            continue
        keys = function_keys(vars(ancestor)["__init__"]).without("self")
        for name, key in keys.known.items():
            known.setdefault(name, key if is_own else Key(key.annotation))
        if not keys.is_open:
            return Keys(known)
        is_own = False
    # Either no class has a constructor, or the last one took whatever was left.
    return Keys(known, is_open=not is_own)


def function_keys(function: Callable[..., Any]) -> Keys:
    """Return the arguments of a function that can be given by name.

    Example:
        >>> function_keys(lambda path, *, rows=None, **kwargs: None).is_open
        True
    """
    known = {}
    is_open = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in _KEYWORD:
            is_required = parameter.default is inspect.Parameter.empty
            known[parameter.name] = Key(_annotation(parameter, function), is_required)
        is_open |= parameter.kind is inspect.Parameter.VAR_KEYWORD
    return Keys(known, is_open)


def _annotation(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    try:
        return eval(parameter.annotation, getattr(function, "__globals__", {}))
    except Exception:  # it names what is imported for type checkers only
        return Any
