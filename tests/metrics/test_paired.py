"""Two systems on common rows, against hand-worked numbers and exact enumeration."""

import itertools

import pytest

from opencompass_ext.metrics.paired import compare_paired


def test_rows_that_one_of_them_lacks_favour_nobody():
    hard_rows_unscored = {1: 1.0, 2: 1.0, 3: None, 4: None, 5: None}
    all_scored = {1: 1.0, 2: 1.0, 3: 0.0, 4: 0.0, 5: 1.0}
    found = compare_paired(hard_rows_unscored, all_scored, seed=0)
    assert (found.n_first, found.n_second, found.n_common) == (2, 5, 2)
    assert (found.mean_first, found.mean_second, found.difference) == (1.0, 1.0, 0.0)
    assert found.p_value == 1.0


def test_the_p_value_is_that_of_all_sign_changes():
    first = dict(enumerate([0.9, 0.8, 0.4, 1.0, 0.6]))
    second = dict(enumerate([0.7, 0.5, 0.5, 0.2, 0.6]))
    differences = [first[i] - second[i] for i in first]
    seen = abs(sum(differences))
    signs = list(itertools.product((1, -1), repeat=5))
    as_far = [
        abs(sum(s * d for s, d in zip(sign, differences, strict=True))) >= seen - 1e-9
        for sign in signs
    ]
    found = compare_paired(first, second, seed=0)
    assert found.p_value == pytest.approx(sum(as_far) / len(signs))


def test_swapping_the_systems_swaps_the_sign_only():
    first, second = dict(enumerate([0.1, 0.9, 0.5] * 9)), dict(enumerate([0.3, 0.2, 0.5] * 9))
    one, other = compare_paired(first, second, seed=3), compare_paired(second, first, seed=3)
    assert one.difference == -other.difference
    assert one.p_value == pytest.approx(other.p_value)
    low, high = one.difference_ci95
    assert other.difference_ci95 == pytest.approx((-high, -low))


def test_without_a_common_row_there_is_nothing_to_compare():
    found = compare_paired({1: 1.0}, {2: 1.0}, seed=0)
    assert found.n_common == 0
    assert found.difference is found.difference_ci95 is found.p_value is None


def test_the_same_seed_gives_the_same_numbers():
    first, second = dict(enumerate([0.1, 0.9] * 20)), dict(enumerate([0.3, 0.2] * 20))
    assert compare_paired(first, second, seed=1) == compare_paired(first, second, seed=1)
