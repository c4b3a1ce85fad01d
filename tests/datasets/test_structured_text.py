"""Tables and nested JSON as text: every value behind what it is called."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.datasets.structured_text import json_to_text, table_to_text


def test_both_forms_of_a_table_give_the_same_text():
    as_lists = [["name", "price"], ["tea", 3], ["milk", 2.5]]
    as_objects = [{"name": "tea", "price": 3}, {"name": "milk", "price": 2.5}]
    expected = "- name: tea; price: 3\n- name: milk; price: 2.5"
    assert table_to_text(as_lists) == table_to_text(as_objects) == expected


def test_line_breaks_in_a_cell_do_not_break_its_row():
    assert table_to_text([{"note": "first\n  second", "n": 1}]) == "- note: first second; n: 1"


def test_rows_without_any_value_are_left_out():
    assert table_to_text([["a", "b"], [None, ""], ["x", 0]]) == "- a: x; b: 0"


@pytest.mark.parametrize(
    "table", [None, {}, "text", [1], [["a"], {"a": 1}], [["a"], [1, 2]], [["a", "a"], [1, 2]]]
)
def test_what_is_no_table_is_refused(table):
    with pytest.raises(ValueError, match="table"):
        table_to_text(table)


words = st.text(alphabet="ab中", min_size=1, max_size=3)
values = st.recursive(
    words | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_every_value_and_every_key_of_a_nested_value_is_told(value):
    text = json_to_text(value)

    def check(part):
        if isinstance(part, dict):
            for key, inner in part.items():
                assert key in text
                check(inner)
        elif isinstance(part, list):
            for inner in part:
                check(inner)
        else:
            assert (part if isinstance(part, str) else json.dumps(part)) in text

    check(value)


@pytest.mark.parametrize("nothing", [[], [[]], [{}]])
def test_what_holds_nothing_is_no_text(nothing):
    assert table_to_text(nothing) == json_to_text(nothing) == ""


def test_an_empty_list_behind_a_key_says_something():
    assert json_to_text({"rooms": []}) == "- rooms: []"
