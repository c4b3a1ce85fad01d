"""Agreement on better/worse pairs, against hand counts and a second derivation."""

import math

import pytest

from opencompass_ext.metrics.better_worse import pair_agreement


def test_counts_and_rates_of_a_hand_worked_list():
    seen = pair_agreement([0.9, 0.8, 0.7, 0.5, 0.1], [0.1, 0.2, 0.7, 0.6, 0.0])
    assert (seen.wins, seen.ties, seen.losses, seen.unscored) == (3, 1, 1, 0)
    assert seen.strict_rate == 0.6
    assert seen.half_credit_rate == 0.7


def test_fifteen_of_twenty_is_not_far_from_chance():
    seen = pair_agreement([1.0] * 15 + [0.0] * 5, [0.5] * 20)
    tail = sum(math.comb(20, k) for k in range(15, 21)) / 2**20
    assert seen.p_value == pytest.approx(2 * tail)
    assert seen.strict_rate_ci95 == pytest.approx((0.5313, 0.8881), abs=1e-4)


def test_ties_count_against_the_strict_rate_and_not_in_the_sign_test():
    seen = pair_agreement([1.0] * 4 + [0.5] * 16, [0.5] * 20)
    assert (seen.strict_rate, seen.half_credit_rate) == (0.2, 0.6)
    assert seen.p_value == pytest.approx(2 / 2**4)


def test_pairs_without_a_score_enter_no_rate():
    seen = pair_agreement([None, 1.0], [0.5, None])
    assert seen.unscored == 2
    assert seen.strict_rate is seen.half_credit_rate is seen.p_value is None
    assert seen.strict_rate_ci95 is None


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        pair_agreement([1.0], [])
