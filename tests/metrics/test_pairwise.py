import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from opencompass_ext.metrics.bootstrap import draw_counts
from opencompass_ext.metrics.pairwise import accuracy_difference, agreement, credits, majority

ROWS = st.lists(
    st.tuples(st.integers(-2, 2), st.booleans(), st.integers(0, 5)), min_size=1, max_size=40
)


def drawn_rows(size=80, seed=0):
    rng = np.random.default_rng(seed)
    preferred = rng.random(size) < 0.4
    margins = np.round(rng.normal(size=size) + preferred - 0.5, 1)
    return margins.tolist(), preferred.tolist(), [i // 3 for i in range(size)]


@given(ROWS)
def test_numbers_agree_with_scikit_learn_on_the_rows_without_equal_scores(rows):
    found = agreement(*zip(*rows, strict=True), seed=0, resamples=10)
    unequal = [(margin > 0, first) for margin, first, _ in rows if margin]
    assert found.equal_scores == len(rows) - len(unequal)
    assert found.n == len(rows)
    if not unequal:
        assert (found.accuracy, found.f1_first, found.f1_second, found.mcc) == (0.5, *[None] * 3)
        return
    predicted, truth = zip(*unequal, strict=True)
    right = accuracy_score(truth, predicted) * len(unequal) + found.equal_scores / 2
    assert found.accuracy == pytest.approx(right / len(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ours, label in ((found.f1_first, True), (found.f1_second, False)):
            if ours is not None:
                assert ours == pytest.approx(f1_score(truth, predicted, pos_label=label))
        if found.mcc is not None:
            assert found.mcc == pytest.approx(matthews_corrcoef(truth, predicted))


@given(ROWS)
def test_turning_every_pair_round_swaps_the_classes_and_nothing_else(rows):
    margins, first, questions = zip(*rows, strict=True)
    one = agreement(margins, first, questions, seed=0, resamples=10)
    other = agreement(
        [-m for m in margins], [not f for f in first], questions, seed=0, resamples=10
    )
    assert other.accuracy == one.accuracy
    assert (other.f1_first, other.f1_second) == (one.f1_second, one.f1_first)
    assert other.mcc == (None if one.mcc is None else pytest.approx(one.mcc))


def test_intervals_resample_whole_questions():
    margins, preferred, questions = drawn_rows()
    found = agreement(margins, preferred, questions, seed=7, resamples=200)
    numbers = np.array(questions)
    accuracies, correlations = [], []
    for row in next(draw_counts(numbers.max() + 1, seed=7, resamples=200)):
        drawn = np.repeat(np.arange(len(numbers)), row[numbers].astype(int))
        kept = [i for i in drawn if margins[i]]
        predicted, truth = [margins[i] > 0 for i in kept], [preferred[i] for i in kept]
        correlations.append(matthews_corrcoef(truth, predicted))
        accuracies.append(
            np.mean([0.5 if not margins[i] else (margins[i] > 0) == preferred[i] for i in drawn])
        )
    assert found.accuracy_ci95 == pytest.approx(tuple(np.quantile(accuracies, [0.025, 0.975])))
    assert found.mcc_ci95 == pytest.approx(tuple(np.quantile(correlations, [0.025, 0.975])))


def test_comparisons_of_one_question_have_no_interval():
    found = agreement([1, -1, 1, -1], [True, False, False, True], "aaaa", seed=0)
    assert (found.accuracy, found.mcc) == (0.5, 0.0)
    assert (found.accuracy_ci95, found.mcc_ci95) == (None, None)


def test_few_questions_have_an_mcc_without_an_interval():
    # Each question has both classes, so that every resample has an MCC: it is the questions that
    # are few.
    def of(questions):
        rows = [(1.0, True, q) for q in range(questions)] + [
            (-1.0 if q % 3 else 1.0, False, q) for q in range(questions)
        ]
        return agreement(*zip(*rows, strict=True), seed=0)

    # 9 right and 3 wrong among 9 votes each way: (9*6 - 3*0) / sqrt(12*9*9*6).
    assert of(9).mcc == pytest.approx(54 / 5832**0.5)
    assert of(9).mcc_ci95 is None
    assert of(9).accuracy_ci95 is not None
    low, high = of(10).mcc_ci95
    assert low <= of(10).mcc <= high


def test_resamples_without_an_mcc_leave_no_interval_that_hides_them():
    # One of 12 votes goes to the second answer: resamples without it are 35 in 100, and the others
    # alone would say that a score right in all of them is beyond chance.
    preferred = [True] * 11 + [False]
    found = agreement([1.0] * 11 + [-1.0], preferred, range(12), seed=0)
    assert (found.mcc, found.mcc_ci95) == (1.0, None)


def test_one_class_has_no_mcc_but_an_accuracy():
    found = agreement([1.0, 2.0, -1.0], [True, True, True], "abc", seed=0)
    assert found.accuracy == pytest.approx(2 / 3)
    assert (found.mcc, found.mcc_ci95) == (None, None)


def test_no_comparison_has_no_number():
    found = agreement([], [], [], seed=0)
    assert found == (0, 0, 0, None, None, None, None, None, None)
    assert accuracy_difference([], [], [], seed=0) == (None, None, None)


def test_a_score_does_not_differ_from_itself():
    margins, preferred, questions = drawn_rows()
    right = credits(margins, preferred)
    assert accuracy_difference(right, right, questions, seed=0) == (0.0, (0.0, 0.0), 1.0)


def test_the_paired_difference_is_narrower_than_two_intervals_apart():
    margins, preferred, questions = drawn_rows(size=300)
    one = credits(margins, preferred)
    other = [0.0 if i % 10 == 0 else value for i, value in enumerate(one)]
    found = accuracy_difference(one, other, questions, seed=0)
    assert found.value == pytest.approx(np.mean(one) - np.mean(other))
    low, high = found.ci95
    assert 0 < low < found.value < high
    assert found.p < 0.01
    whole = agreement(margins, preferred, questions, seed=0).accuracy_ci95
    assert high - low < whole[1] - whole[0]


@pytest.mark.parametrize(
    ("votes", "winner"),
    [
        (["a"], "a"),
        (["b", "b", "a"], "b"),
        (["a", "b", "tie"], "tie"),
        (["a", "a", "tie", "tie"], "tie"),
        (["a", "a", "b", "tie"], "a"),
        (["tie", "tie", "a"], "tie"),
        ([], "tie"),
    ],
)
def test_majority(votes, winner):
    assert majority(votes) == winner


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="zip"):
        credits([1.0], [True, False])
    with pytest.raises(ValueError, match="zip"):
        agreement([1.0, 1.0], [True, False], ["q"], seed=0)
