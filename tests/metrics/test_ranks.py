import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opencompass_ext.metrics.bootstrap import draw_counts
from opencompass_ext.metrics.ranks import kendall_tau_b, rank_agreement, ranks, spearman
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


def drawn_answers(questions=12, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=questions)
    of = [q for q, size in enumerate(sizes) for _ in range(size)]
    gold = [rank for size in sizes for rank in rng.integers(1, size + 1, size=size)]
    scores = [10 * q + rank + rng.normal() for q, rank in zip(of, gold, strict=True)]
    return scores, [int(rank) for rank in gold], of


def by_question(values, questions):
    return [
        [v for v, q in zip(values, questions, strict=True) if q == wanted]
        for wanted in dict.fromkeys(questions)
    ]


def test_pooled_and_mean_tau_agree_with_scipy():
    scores, gold, questions = drawn_answers()
    found = rank_agreement(scores, gold, questions, seed=0)
    x = np.concatenate([stats.rankdata(g) for g in by_question(scores, questions)])
    y = np.concatenate([stats.rankdata(g) for g in by_question(gold, questions)])
    reference = stats.kendalltau(x, y)
    assert found.pooled == (
        pytest.approx(reference.statistic),
        pytest.approx(reference.pvalue),
        len(x),
    )
    own = [
        tau_b_by_hand(a, b)
        for a, b in zip(by_question(scores, questions), by_question(gold, questions), strict=True)
    ]
    defined = [tau for tau in own if tau is not None]
    assert found.mean == pytest.approx(np.mean(defined))
    assert (found.questions, found.questions_in_mean) == (12, len(defined))
    assert found.mean_ci95[0] < found.mean < found.mean_ci95[1]


def test_the_interval_of_the_pooled_tau_is_that_of_the_drawn_questions():
    scores, gold, questions = drawn_answers()
    found = rank_agreement(scores, gold, questions, seed=3, resamples=60)
    xs = [stats.rankdata(g) for g in by_question(scores, questions)]
    ys = [stats.rankdata(g) for g in by_question(gold, questions)]
    taus = []
    for row in next(draw_counts(12, seed=3, resamples=60)):
        drawn = np.repeat(np.arange(12), row.astype(int))
        x, y = (np.concatenate([side[q] for q in drawn]) for side in (xs, ys))
        taus.append(stats.kendalltau(x, y).statistic)
    assert found.pooled_ci95 == pytest.approx(tuple(np.quantile(taus, [0.025, 0.975])))


def test_only_the_order_within_a_question_counts():
    scores, gold, questions = drawn_answers()
    one = rank_agreement(scores, gold, questions, seed=0, resamples=20)
    shifted = [7.0 * q - 3 + score / 10 for score, q in zip(scores, questions, strict=True)]
    assert rank_agreement(shifted, gold, questions, seed=0, resamples=20) == one
    assert rank_agreement(scores, [g * 10 for g in gold], questions, seed=0, resamples=20) == one


def test_perfect_and_reversed_orders():
    gold, questions = [1, 2, 3] * 4, [i // 3 for i in range(12)]
    same = rank_agreement([0.1, 0.5, 0.9] * 4, gold, questions, seed=0)
    assert (same.pooled.value, same.mean) == (pytest.approx(1.0), pytest.approx(1.0))
    assert same.pooled_ci95 == pytest.approx((1.0, 1.0))
    reverse = rank_agreement([0.9, 0.5, 0.1] * 4, gold, questions, seed=0)
    assert (reverse.pooled.value, reverse.mean) == (pytest.approx(-1.0), pytest.approx(-1.0))


def test_questions_without_an_order_have_no_tau_and_are_counted():
    found = rank_agreement([1, 2, 3, 3, 5], [1, 2, 1, 2, 1], "aabbc", seed=0)
    assert (found.questions, found.questions_in_mean) == (3, 1)
    assert found.mean == 1.0
    assert found.mean_ci95 is None


def test_nothing_to_rank():
    found = rank_agreement([], [], [], seed=0)
    assert found.pooled == (None, None, 0)
    assert (found.pooled_ci95, found.mean, found.mean_ci95) == (None, None, None)


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="zip"):
        rank_agreement([1.0], [1], [], seed=0)
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
