"""Whether a plain value of a config fits a Python annotation."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union

_PLAIN_NAMES = {str: "text", int: "an integer", float: "a number", bool: "True or False"}


def mismatch(value: Any, annotation: Any) -> str | None:
    """Return what was expected if ``value`` does not fit ``annotation``, else None.

    Annotations that say nothing about plain values, such as a class of some package, fit all.

    Example:
        >>> mismatch("4", int | None)
        'an integer or None'
        >>> mismatch([1, 2], list[int]) is None
        True
    """
    if _fits(value, annotation):
        return None
    return _name(annotation)


def _fits(value: Any, annotation: Any) -> bool:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in arguments)
    if origin is Literal:
        return value in arguments
    if annotation is type(None) or annotation is None:
        return value is None
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in (str, bool):
        return isinstance(value, annotation)
    if _is_a(annotation, Mapping):
        return isinstance(value, dict)
    if _is_a(annotation, Sequence):
        items = [a for a in arguments if a is not Ellipsis]
        return isinstance(value, list) and (
            len(items) != 1 or all(_fits(item, items[0]) for item in value)
        )
    return True


def _is_a(annotation: Any, kind: type) -> bool:
    container = typing.get_origin(annotation) or annotation
    return isinstance(container, type) and issubclass(container, kind)


def _name(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(_name(option) for option in arguments)
    if origin is Literal:
        return " or ".join(repr(option) for option in arguments)
    if annotation is type(None) or annotation is None:
        return "None"
    if annotation in _PLAIN_NAMES:
        return _PLAIN_NAMES[annotation]
    if _is_a(annotation, Mapping):
        return "a dict"
    if _is_a(annotation, Sequence):
        items = [a for a in arguments if a is not Ellipsis]
        return f"a list of {_name(items[0])}" if len(items) == 1 else "a list"
    return str(annotation)
