from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from opencompass_ext.schema.dicts import class_keys
from opencompass_ext.schema.signatures import constructor_keys
from opencompass_ext.schema.values import mismatch


class Base:
    def __init__(self, path: str, seed: int = 0) -> None: ...


class Middle(Base):
    def __init__(self, *args: Any, rows: int, **kwargs: Any) -> None: ...


class Inheriting(Middle):
    pass


class Closed(Middle):
    def __init__(self, only: "NotDefinedAnywhere" = None) -> None: ...  # noqa: F821


class Open:
    def __init__(self, a: int = 0, **kwargs: Any) -> None: ...


class Rows:
    def __init__(self, reader_cfg: Mapping | None = None, **load_kwargs: Any) -> None: ...

    @staticmethod
    def load(path: str, name: str | None = None) -> None: ...


class RowsOfAnything(Rows):
    @staticmethod
    def load(**kwargs: Any) -> None: ...


@pytest.mark.parametrize("cls", [Middle, Inheriting])
def test_keyword_arguments_are_followed_to_the_base(cls):
    keys = constructor_keys(cls)
    assert set(keys.known) == {"rows", "path", "seed"}
    assert not keys.is_open
    assert [name for name, key in keys.known.items() if key.is_required] == ["rows"]


def test_a_constructor_without_keyword_arguments_ends_the_walk():
    assert set(constructor_keys(Closed).known) == {"only"}


def test_an_annotation_that_cannot_be_read_says_nothing():
    assert constructor_keys(Closed).known["only"].annotation is Any


def test_a_class_that_takes_anything_is_open():
    assert constructor_keys(Open).is_open


def test_a_class_without_constructor_takes_nothing():
    keys = constructor_keys(type("Plain", (), {}))
    assert not keys.known
    assert not keys.is_open


def test_a_dataset_takes_the_arguments_of_its_load():
    keys = class_keys(Rows)
    assert set(keys.known) == {"reader_cfg", "path", "name"}
    assert keys.known["path"].is_required
    assert not keys.is_open
    assert class_keys(RowsOfAnything).is_open


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (3, int),
        (3, float),
        (3.5, float),
        (None, int | None),
        ("a", str | Sequence[str]),
        (["a"], str | Sequence[str]),
        ([1, 2], list[int]),
        ([[0, 1]], Sequence[Sequence[int]]),
        ([1, 2, 3], tuple[int, ...]),
        ([1, "a"], tuple[int, str]),
        ({"a": 1}, Mapping[str, Any]),
        ({}, dict),
        ("base", Literal["base", "chat"]),
        (True, bool),
        (object(), Any),
        ("anything", Base),
    ],
)
def test_values_that_fit(value, annotation):
    assert mismatch(value, annotation) is None


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (True, int, "an integer"),
        (1.0, int, "an integer"),
        (False, float, "a number"),
        (1, bool, "True or False"),
        ("ab", list[str], "a list of text"),
        ("ab", Sequence[str], "a list of text"),
        ([1], list[str], "a list of text"),
        ([], dict[str, int], "a dict"),
        (None, str, "text"),
        (3, str | None, "text or None"),
        ("x", Literal["base", "chat"], "'base' or 'chat'"),
    ],
)
def test_values_that_do_not_fit(value, annotation, expected):
    assert mismatch(value, annotation) == expected
