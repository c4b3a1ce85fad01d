import pytest

from opencompass_ext.summarizers.reports.figures import (
    amount,
    amount_column,
    difference,
    p_value,
    rank,
    share,
)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (share(0.5), "0.500"),
        (share(-0.12345, (-1, 0.5)), "-0.123 [-1.000, 0.500]"),
        (difference(0.0, (0.0, 0.1)), "+0.000 [+0.000, +0.100]"),
        (difference(None), "-"),
        (amount(0.00123456), "0.001235"),
        (amount(98765.4, (1.0, 123456.0)), "98765 [1, 123456]"),
        (amount(1.5e20, (1e20, 2e20)), "1.500e+20 [1.000e+20, 2.000e+20]"),
        (amount(None, (1, 2)), "-"),
        (p_value(0.0), "<0.001"),
        (p_value(0.001), "0.001"),
        (p_value(1.0), "1.000"),
        (rank(10.0), "10"),
        (rank(3.25), "3.25"),
    ],
)
def test_figures(shown, text):
    assert shown == text


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([8.98431, 0.58629, None], ["8.984", "0.586", "-"]),
        ([0.05123, 120.5], ["0.0512", "120.5000"]),
        ([0.0, 1000.0], ["0.00", "1000.00"]),
        ([0.0000123, 4.0], ["1.230e-05", "4.000"]),
        ([None], ["-"]),
        ([], []),
    ],
)
def test_the_numbers_of_a_column_have_as_many_decimals(values, shown):
    assert amount_column(values) == shown
