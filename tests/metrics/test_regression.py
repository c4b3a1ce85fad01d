import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opencompass_ext.metrics.regression import fit_line

POINTS = st.lists(st.tuples(st.integers(0, 500), st.integers(-99, 99)), min_size=2, max_size=12)


@given(POINTS)
def test_the_line_is_that_of_scipy(points):
    x, y = [a for a, _ in points], [b for _, b in points]
    line = fit_line(x, y)
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert line is None
        return
    reference = stats.linregress(x, y)
    assert line.slope == pytest.approx(reference.slope, abs=1e-9)
    assert line.intercept == pytest.approx(reference.intercept, abs=1e-6)
    assert line.r_squared == pytest.approx(reference.rvalue**2, abs=1e-9)


@given(st.lists(st.integers(0, 500), min_size=2, max_size=9, unique=True), st.floats(0.1, 3.0))
def test_points_on_a_line_explain_no_more_than_all(x, slope):
    line = fit_line(x, [slope * value - 7.3 for value in x])
    assert 0.999999 < line.r_squared <= 1.0


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="2 x for 1 y"):
        fit_line([1, 2], [1])
