import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.summarizers.results import PairResults
from opencompass_ext.summarizers.table import format_number, make_cell

NUMBERS = st.floats(min_value=1e-300, max_value=1e300).flatmap(lambda x: st.sampled_from([x, -x]))


@given(NUMBERS)
def test_what_is_printed_is_right_to_half_a_unit_in_the_fifth_digit(value):
    assert float(format_number(value)) == pytest.approx(value, rel=0.5e-4 * 1.0001)


@given(st.floats(min_value=1e-4, max_value=1e9), st.floats(min_value=1.0002, max_value=3))
def test_numbers_that_differ_in_the_fourth_digit_print_differently(value, factor):
    assert format_number(value) != format_number(value * factor)


def test_two_decimals_would_have_lost_the_difference():
    assert format_number(0.5912) == "0.59120"
    assert format_number(0.5879) == "0.58790"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0000"),
        (9.99999, "10.0000"),
        (-2.5, "-2.5000"),
        (123456.7, "123457"),
        (1e20, "1.0000e+20"),
        (0.00012345678, "0.00012346"),
        (1234567, "1234567"),
    ],
)
def test_examples(value, text):
    assert format_number(value) == text


def test_an_interval_has_the_decimals_of_its_value():
    results = PairResults({"m": 11.123456}, {"m": (9.5, 12.75)})
    assert make_cell(results, "m").shown == "11.123 [9.500, 12.750]"
    tiny = PairResults({"m": 1.5e-9}, {"m": (1e-9, 2e-9)})
    assert make_cell(tiny, "m").shown == "1.5000e-09 [1.0000e-09, 2.0000e-09]"


def test_the_plain_number_is_exact():
    value = math.pi / 3
    assert float(make_cell(PairResults({"m": value}), "m").plain) == value
