import pytest

from opencompass_ext.summarizers.reports.figures import amount, difference, p_value, rank, share


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
