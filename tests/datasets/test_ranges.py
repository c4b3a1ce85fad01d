import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.datasets.ranges import select_rows
from opencompass_ext.errors import ConfigError

INDEX = st.none() | st.integers(-30, 30)
SLICES = st.lists(st.tuples(INDEX, INDEX, INDEX.filter(lambda step: step != 0)), min_size=1)


def test_none_is_all_rows():
    assert list(select_rows(3, None)) == [0, 1, 2]


@given(st.integers(1, 40), SLICES)
def test_slices_mean_what_python_means(total, slices):
    rows = list(range(total))
    for start, stop, step in slices:
        rows = rows[start:stop:step]
    text = "".join(
        "[" + ":".join("" if part is None else str(part) for part in cut) + "]" for cut in slices
    )
    if rows:
        assert list(select_rows(total, text)) == rows
    else:
        with pytest.raises(ConfigError, match="selects none"):
            select_rows(total, text)


@pytest.mark.parametrize("text", ["[:2]", " [ : 2 ] ", "[0:2]", "[-5:-3]", "[:4][ :2]"])
def test_blanks_in_a_slice_are_allowed(text):
    assert list(select_rows(5, text)) == [0, 1]


@given(st.integers(2, 500), st.integers(1, 499))
def test_a_number_draws_the_rows_that_opencompass_draws(total, size):
    if size >= total:
        assert list(select_rows(total, size)) == list(range(total))
        return
    expected = list(range(total))
    random.Random(x=size).shuffle(expected)
    drawn = select_rows(total, size)
    assert drawn == expected[:size]
    assert len(set(drawn)) == size


def test_a_share_draws_as_its_number_of_rows_does():
    assert select_rows(200, 0.1) == select_rows(200, 20)
    assert select_rows(7, 0.5) == select_rows(7, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        *["", "10:20", "[3]", "[1:2:0]", "[1:2", "[a:b]", "[1:2]x", "[1:2:3:4]", "[exit()]"],
        *[0, -1, 0.0, 2.5, True, float("nan"), float("inf"), [0, 1], {}],
    ],
)
def test_anything_else_is_refused_with_the_forms_that_are_known(wrong):
    with pytest.raises(ConfigError, match="a range of rows is a slice") as caught:
        select_rows(30, wrong)
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize("empty", ["[30:40]", "[5:5]", "[:10][10:]", 0.01])
def test_a_range_without_rows_is_refused(empty):
    with pytest.raises(ConfigError, match=r"selects none of the 30 rows"):
        select_rows(30, empty)
