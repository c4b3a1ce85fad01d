import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opencompass_ext.metrics.ranks import kendall_tau_b, ranks, spearman
from opencompass_ext.metrics.regression import fit_line

PAIRS = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=25)


def tau_b_by_hand(x, y):
    concordant = discordant = ties_x = ties_y = 0
    for i in range(len(x)):
        for j in range(i):
            product = np.sign(x[i] - x[j]) * np.sign(y[i] - y[j])
            concordant += product > 0
            discordant += product < 0
            ties_x += x[i] == x[j]
            ties_y += y[i] == y[j]
    pairs = len(x) * (len(x) - 1) / 2
    spread = (pairs - ties_x) * (pairs - ties_y)
    return (concordant - discordant) / spread**0.5 if spread else None


@given(PAIRS)
def test_ranks_agree_with_scipy(pairs):
    values = [x for x, _ in pairs]
    assert ranks(values) == stats.rankdata(values).tolist()


@given(PAIRS)
def test_tau_b_counts_pairs(pairs):
    x, y = zip(*pairs, strict=True)
    found, expected = kendall_tau_b(x, y), tau_b_by_hand(x, y)
    assert found.value == (None if expected is None else pytest.approx(expected))
    assert found.n == len(pairs)


@given(PAIRS)
def test_spearman_is_the_correlation_of_ranks(pairs):
    x, y = zip(*pairs, strict=True)
    found = spearman(x, y)
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert found.value is None
    else:
        expected = np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1]
        assert found.value == pytest.approx(expected)
        assert (found.p is None) == (len(x) < 3)


def test_lists_of_different_length_are_refused():
    for function in (kendall_tau_b, spearman):
        with pytest.raises(ValueError, match="1 values on one side, 2 on the other"):
            function([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="1 x for 2 y"):
        fit_line([1.0], [1.0, 2.0])


@given(PAIRS)
def test_the_line_agrees_with_scipy(pairs):
    x, y = zip(*pairs, strict=True)
    line = fit_line(x, y)
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert line is None
        return
    reference = stats.linregress(x, y)
    assert line.slope == pytest.approx(reference.slope, abs=1e-12)
    assert line.intercept == pytest.approx(reference.intercept, abs=1e-12)
    assert line.r_squared == pytest.approx(reference.rvalue**2, abs=1e-12)
