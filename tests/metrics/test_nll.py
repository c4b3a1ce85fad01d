import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opencompass_ext.metrics import bootstrap
from opencompass_ext.metrics.nll import (
    bits_per_byte,
    example_weighted_mean,
    mean_nll,
    mean_nll_interval,
    perplexity,
)

ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(min_value=0, max_value=1e6)),
        st.integers(min_value=0, max_value=5000),
    ).map(lambda row: (0.0 if row[0] is not None and row[1] == 0 else row[0], row[1])),
    max_size=30,
)


def columns(rows):
    return [nll for nll, _ in rows], [tokens for _, tokens in rows]


def test_vectors_worked_by_hand():
    assert mean_nll([2.0, 9.0], [4, 2]) == pytest.approx(1.8333333333333333, rel=0, abs=1e-15)
    assert example_weighted_mean([2.0, 9.0], [4, 2]) == 2.5


@pytest.mark.parametrize("vocab_size", [2, 50, 151_936])
def test_uniform_logits_cost_ln_vocab_per_token(vocab_size):
    tokens = [3, 1, 17]
    nlls = [n * math.log(vocab_size) for n in tokens]
    assert mean_nll(nlls, tokens) == pytest.approx(math.log(vocab_size), rel=1e-14)
    assert perplexity(mean_nll(nlls, tokens)) == pytest.approx(vocab_size, rel=1e-12)


def test_a_uniform_guess_over_bytes_costs_eight_bits_per_byte():
    assert bits_per_byte([5 * math.log(256), 2 * math.log(256)], [5, 2]) == pytest.approx(8.0)


@given(ROWS)
def test_mean_is_the_exact_ratio_rounded_once_per_sum(rows):
    counted = [(Fraction(n), t) for n, t in rows if n is not None and t > 0]
    result = mean_nll(*columns(rows))
    if not counted:
        assert result is None
        return
    exact_sum = float(sum(n for n, _ in counted))
    assert result == exact_sum / sum(t for _, t in counted)


@given(ROWS, st.randoms())
def test_row_order_changes_nothing(rows, rnd):
    shuffled = rows[:]
    rnd.shuffle(shuffled)
    for metric in (mean_nll, bits_per_byte, example_weighted_mean):
        assert metric(*columns(shuffled)) == metric(*columns(rows))
    interval = mean_nll_interval(*columns(rows), seed=3, resamples=50)
    assert mean_nll_interval(*columns(shuffled), seed=3, resamples=50) == interval


@given(ROWS)
def test_scoring_every_row_twice_changes_no_mean(rows):
    once, twice = mean_nll(*columns(rows)), mean_nll(*columns(rows + rows))
    assert twice == pytest.approx(once, rel=1e-12) if once is not None else twice is None


@given(ROWS)
def test_rows_without_a_number_or_a_token_count_as_absent(rows):
    kept = [row for row in rows if row[0] is not None and row[1] > 0]
    for metric in (mean_nll, bits_per_byte, example_weighted_mean):
        assert metric(*columns(rows)) == metric(*columns(kept))


@given(ROWS)
def test_the_mean_lies_between_the_best_and_the_worst_row(rows):
    means = [n / t for n, t in rows if n is not None and t > 0]
    for metric in (mean_nll, example_weighted_mean):
        result = metric(*columns(rows))
        if means:
            slack = 1e-12 * max(means)
            assert min(means) - slack <= result <= max(means) + slack


def test_small_terms_survive_beside_a_large_one():
    nlls = [1e16] + [1.0] * 10
    assert mean_nll(nlls, [1] * 11) == (10**16 + 10) / 11


@pytest.mark.parametrize("metric", [mean_nll, bits_per_byte, example_weighted_mean])
@pytest.mark.parametrize("rows", [([], []), ([None], [3]), ([0.0, 0.0], [0, 0])])
def test_nothing_counted_gives_none(metric, rows):
    assert metric(*rows) is None


@pytest.mark.parametrize("metric", [mean_nll, bits_per_byte, example_weighted_mean])
def test_lists_of_different_length_are_refused(metric):
    with pytest.raises(ValueError, match="shorter"):
        metric([1.0, 2.0], [1])


def test_perplexity_beyond_floats_is_infinite():
    assert perplexity(1000.0) == math.inf


def test_interval_agrees_with_every_resample_of_a_small_set():
    nlls, tokens = [2.0, 9.0, 4.0, 1.0], [4, 2, 4, 8]
    exact = np.array(
        [
            sum(nlls[i] for i in draw) / sum(tokens[i] for i in draw)
            for draw in itertools.product(range(4), repeat=4)
        ]
    )
    low, high = mean_nll_interval(nlls, tokens, seed=0, resamples=40_000)
    # Percentiles of a discrete distribution: the share below each end is what is defined.
    assert np.mean(exact < low) <= 0.03
    assert np.mean(exact > high) <= 0.03
    assert np.mean((exact >= low) & (exact <= high)) == pytest.approx(0.95, abs=0.02)


def test_interval_agrees_with_scipy():
    rng = np.random.default_rng(7)
    tokens = rng.integers(1, 200, size=150)
    nlls = tokens * rng.gamma(2.0, 1.0, size=150)
    reference = stats.bootstrap(
        (nlls, tokens),
        lambda n, t, axis=-1: n.sum(axis) / t.sum(axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    low, high = mean_nll_interval(nlls.tolist(), tokens.tolist(), seed=0, resamples=20_000)
    width = reference.high - reference.low
    assert low == pytest.approx(reference.low, abs=0.04 * width)
    assert high == pytest.approx(reference.high, abs=0.04 * width)


def test_interval_does_not_depend_on_how_the_draws_are_cut_into_blocks(monkeypatch):
    rnd = random.Random(0)
    nlls, tokens = [rnd.random() * 9 for _ in range(37)], [rnd.randint(1, 9) for _ in range(37)]
    whole = mean_nll_interval(nlls, tokens, seed=5, resamples=300)
    for block in (1, 37 * 7, 37 * 300):
        monkeypatch.setattr(bootstrap, "BLOCK", block)
        cut = mean_nll_interval(nlls, tokens, seed=5, resamples=300)
        assert cut == pytest.approx(whole, rel=1e-12)


def test_interval_follows_the_seed():
    nlls, tokens = [2.0, 9.0, 4.0, 1.0, 3.3], [4, 2, 4, 8, 5]
    assert mean_nll_interval(nlls, tokens, seed=1) == mean_nll_interval(nlls, tokens, seed=1)
    assert mean_nll_interval(nlls, tokens, seed=1) != mean_nll_interval(nlls, tokens, seed=2)


@pytest.mark.parametrize("rows", [([], []), ([1.0], [3]), ([1.0, None, 0.0], [3, 4, 0])])
def test_no_interval_from_fewer_than_two_scored_rows(rows):
    assert mean_nll_interval(*rows, seed=0) is None
