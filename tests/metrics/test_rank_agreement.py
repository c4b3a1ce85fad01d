import numpy as np
import pytest
from scipy import stats

from opencompass_ext.metrics.bootstrap import draw_counts
from opencompass_ext.metrics.rank_agreement import rank_agreement, rank_agreement_difference


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
    groups = zip(by_question(scores, questions), by_question(gold, questions), strict=True)
    own = [stats.kendalltau(a, b).statistic for a, b in groups if len(a) > 1]
    defined = [tau for tau in own if not np.isnan(tau)]
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


def test_the_difference_of_two_scores_is_resampled_in_pairs():
    scores, gold, questions = drawn_answers(questions=10, seed=2)
    other = np.random.default_rng(3).normal(size=len(scores)).tolist()
    found = rank_agreement_difference(scores, other, gold, questions, seed=6, resamples=60)
    sides = {
        name: [stats.rankdata(group) for group in by_question(values, questions)]
        for name, values in (("one", scores), ("other", other), ("gold", gold))
    }
    differences = []
    for row in next(draw_counts(10, seed=6, resamples=60)):
        drawn = np.repeat(np.arange(10), row.astype(int))
        one, two, y = (
            np.concatenate([sides[name][q] for q in drawn]) for name in ("one", "other", "gold")
        )
        taus = [stats.kendalltau(x, y).statistic for x in (one, two)]
        differences.append(taus[0] - taus[1])
    assert found.ci95 == pytest.approx(tuple(np.quantile(differences, [0.025, 0.975])))
    one, two = (
        rank_agreement(side, gold, questions, seed=0).pooled.value for side in (scores, other)
    )
    assert found.value == pytest.approx(one - two)


def test_a_score_without_a_tau_differs_from_none():
    found = rank_agreement_difference([1, 1], [1, 2], [1, 2], "aa", seed=0)
    assert found == (None, None)
    assert rank_agreement_difference([], [], [], [], seed=0) == (None, None)


def test_answers_without_a_question_are_refused():
    with pytest.raises(ValueError, match="zip"):
        rank_agreement([1.0], [1], [], seed=0)
