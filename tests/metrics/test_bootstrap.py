import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opencompass_ext.metrics import bootstrap
from opencompass_ext.metrics.bootstrap import (
    bootstrap_interval,
    draw_counts,
    mean_interval,
    median_interval,
    paired_permutation_p,
)

VALUES = st.lists(st.floats(min_value=-1e3, max_value=1e3), min_size=2, max_size=12)


def sample(size, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=size)


def scipy_interval(values, statistic):
    return stats.bootstrap(
        (values,),
        statistic,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).confidence_interval


def test_each_unit_is_drawn_as_often_as_any_other():
    counts = np.concatenate(list(draw_counts(5, seed=3, resamples=20_000)))
    assert counts.shape == (20_000, 5)
    assert counts.mean(axis=0) == pytest.approx(np.ones(5), abs=0.03)
    # A binomial count of 5 draws at 1/5.
    assert counts.var(axis=0) == pytest.approx(np.full(5, 5 * 0.2 * 0.8), abs=0.05)


@pytest.mark.parametrize("block", [1, 10, 37, 10**6])
def test_the_draws_do_not_depend_on_the_size_of_the_blocks(monkeypatch, block):
    whole = np.concatenate(list(draw_counts(7, seed=4, resamples=50)))
    monkeypatch.setattr(bootstrap, "BLOCK", block)
    assert (np.concatenate(list(draw_counts(7, seed=4, resamples=50))) == whole).all()


@pytest.mark.parametrize(
    ("ours", "statistic"), [(mean_interval, np.mean), (median_interval, np.median)]
)
def test_intervals_of_rows_agree_with_scipy(ours, statistic):
    values = sample(60)
    low, high = ours(values.tolist(), seed=0, resamples=20_000)
    reference = scipy_interval(values, statistic)
    width = reference.high - reference.low
    assert low == pytest.approx(reference.low, abs=0.05 * width)
    assert high == pytest.approx(reference.high, abs=0.05 * width)


@given(VALUES, st.integers(min_value=0, max_value=99))
def test_a_resampled_median_is_that_of_the_drawn_values(values, seed):
    counts = next(draw_counts(len(values), seed=seed, resamples=40))
    ordered = np.sort(values)
    drawn = [np.median(np.repeat(ordered, row.astype(int))) for row in counts]
    expected = np.quantile(drawn, [0.025, 0.975])
    got = median_interval(values, seed=seed, resamples=40)
    assert got == pytest.approx(tuple(expected), rel=1e-9, abs=1e-9)


def test_rows_of_one_question_are_drawn_together():
    values = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    questions = ["a", "a", "a", "b", "b", "b"]
    assert mean_interval(values, questions, seed=0) == (0.0, 1.0)
    low, high = mean_interval(values, seed=0)
    assert low > 0.0
    assert high < 1.0


def test_an_interval_of_questions_repeats_the_mean_over_the_drawn_rows():
    values, questions = sample(30).tolist(), [i // 4 for i in range(30)]
    rows = np.array(values)
    means = []
    for row in next(draw_counts(8, seed=9, resamples=200)):
        drawn = np.repeat(np.arange(8), row.astype(int))
        means.append(np.concatenate([rows[4 * q : 4 * q + 4] for q in drawn]).mean())
    expected = tuple(np.quantile(means, [0.025, 0.975]))
    assert mean_interval(values, questions, seed=9, resamples=200) == pytest.approx(expected)


def test_no_interval_from_fewer_than_two_units():
    assert mean_interval([], seed=0) is None
    assert mean_interval([1.0], seed=0) is None
    assert mean_interval([1.0, 2.0], ["q", "q"], seed=0) is None
    assert median_interval([3.0], seed=0) is None


def test_resamples_without_a_value_are_left_out_and_too_many_give_no_interval():
    def undefined_in(share):
        def statistic(counts):
            values = counts.mean(axis=1) * 5.0
            values[: int(share * len(values))] = np.nan
            return values

        return statistic

    assert bootstrap_interval(undefined_in(0.009), 4, seed=0) == (5.0, 5.0)
    assert bootstrap_interval(undefined_in(0.011), 4, seed=0) is None


@given(VALUES.filter(lambda values: len(values) <= 9))
def test_the_exact_permutation_test_tries_all_signs(values):
    sums = [
        abs(sum(v * s for v, s in zip(values, signs, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    seen = abs(sum(values))
    close = 1e-9 * (1 + sum(map(abs, values)))
    p = paired_permutation_p(values, seed=0)
    at_least = sum(s >= seen + close for s in sums) / len(sums)
    at_most = sum(s >= seen - close for s in sums) / len(sums)
    assert at_least <= p <= at_most


def test_the_drawn_permutation_test_agrees_with_scipy():
    differences = sample(40) - 1.7
    reference = stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=20_000,
        rng=np.random.default_rng(2),
    ).pvalue
    got = paired_permutation_p(differences.tolist(), seed=0, permutations=20_000)
    assert got == pytest.approx(reference, abs=0.01)


def test_the_drawn_test_is_never_certain_and_follows_its_seed():
    differences = [1.0] * 30
    assert paired_permutation_p(differences, seed=0, permutations=999) == 1 / 1000
    mixed = sample(30).tolist()
    centred = [v - 2.0 for v in mixed]
    assert paired_permutation_p(centred, seed=1) == paired_permutation_p(centred, seed=1)


@pytest.mark.parametrize("repeats", [2, 8])
def test_differences_that_cancel_out_have_p_1_whatever_their_last_bits(repeats):
    # As floats 0.1 + 0.2 - 0.3 is 6e-17; every assignment lies at least as far from 0 as 0 does.
    assert paired_permutation_p([0.1, 0.2, -0.3] * repeats, seed=0) == 1.0


def test_rows_of_one_question_change_sign_together():
    differences, questions = [1.0, 1.0, 1.0, 1.0], ["a", "a", "b", "b"]
    assert paired_permutation_p(differences, seed=0) == 2 / 16
    assert paired_permutation_p(differences, questions, seed=0) == 2 / 4


def test_a_question_that_cancels_out_is_no_evidence():
    assert paired_permutation_p([1.0, -1.0], ["a", "a"], seed=0) == 1.0


def test_nothing_to_permute_has_no_p_value():
    assert paired_permutation_p([], seed=0) is None


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="zip"):
        mean_interval([1.0, 2.0], ["a"], seed=0)
    with pytest.raises(ValueError, match="zip"):
        paired_permutation_p([1.0], ["a", "b"], seed=0)
