import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import confusion_matrix, f1_score, matthews_corrcoef, roc_auc_score

from opencompass_ext.metrics.binary import (
    Confusion,
    binomial_p,
    f1,
    mcc,
    mcc_of_arrays,
    roc_auc,
    roc_auc_interval,
    wilson_interval,
)
from opencompass_ext.metrics.bootstrap import draw_counts

CLASSES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)
# Few different scores, so that equal ones are common.
SCORED = st.lists(st.tuples(st.booleans(), st.integers(min_value=-3, max_value=3)), max_size=40)
COUNTS = st.integers(min_value=0, max_value=400)


def counted(rows):
    matrix = confusion_matrix([y for y, _ in rows], [p for _, p in rows], labels=[True, False])
    (tp, fn), (fp, tn) = matrix.tolist()
    return Confusion(tp, fp, fn, tn)


@given(CLASSES)
def test_f1_of_both_classes_agrees_with_scikit_learn(rows):
    truth, predicted = zip(*rows, strict=True)
    counts = counted(rows)
    swapped = Confusion(counts.tn, counts.fn, counts.fp, counts.tp)
    for ours, label in ((f1(counts), True), (f1(swapped), False)):
        if ours is None:
            assert label not in truth + predicted
        else:
            assert ours == pytest.approx(f1_score(truth, predicted, pos_label=label))


@given(CLASSES)
def test_mcc_agrees_with_scikit_learn_where_it_has_a_value(rows):
    truth, predicted = zip(*rows, strict=True)
    ours = mcc(counted(rows))
    if ours is None:
        assert len(set(truth)) == 1 or len(set(predicted)) == 1
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours == pytest.approx(matthews_corrcoef(truth, predicted))


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS), min_size=1, max_size=9))
def test_many_counts_at_once_give_the_same_mcc(tables):
    at_once = mcc_of_arrays(*np.array(tables, dtype=np.float64).T)
    one_by_one = [mcc(Confusion(*table)) for table in tables]
    expected = [np.nan if value is None else value for value in one_by_one]
    assert at_once == pytest.approx(expected, nan_ok=True)


@given(SCORED)
def test_auc_agrees_with_scikit_learn(rows):
    classes, scores = [y for y, _ in rows], [float(s) for _, s in rows]
    ours = roc_auc(classes, scores)
    if len(set(classes)) < 2:
        assert ours is None
    else:
        assert ours == pytest.approx(roc_auc_score(classes, scores))


@given(SCORED.filter(lambda rows: len({y for y, _ in rows}) == 2))
def test_turning_the_scores_round_turns_the_auc_round(rows):
    classes, scores = [y for y, _ in rows], [float(s) for _, s in rows]
    assert roc_auc(classes, [-s for s in scores]) == pytest.approx(1 - roc_auc(classes, scores))


@pytest.mark.parametrize("units", [None, [i // 3 for i in range(60)]])
def test_a_resampled_auc_is_that_of_the_drawn_rows(units):
    rng = np.random.default_rng(0)
    classes = rng.random(60) < 0.4
    scores = np.round(rng.normal(size=60) + classes, 1)
    groups = np.arange(60) if units is None else np.array(units)
    areas = []
    for row in next(draw_counts(groups.max() + 1, seed=5, resamples=100)):
        drawn = np.repeat(np.arange(60), row[groups].astype(int))
        areas.append(roc_auc_score(classes[drawn], scores[drawn]))
    expected = tuple(np.quantile(areas, [0.025, 0.975]))
    got = roc_auc_interval(classes.tolist(), scores.tolist(), units, seed=5, resamples=100)
    assert got == pytest.approx(expected)


def test_a_class_that_is_missing_or_rare_gives_no_interval():
    assert roc_auc_interval([True, True], [0.1, 0.2], seed=0) is None
    # One row of a class is missing from every third resample.
    assert roc_auc_interval([True] + [False] * 20, list(range(21)), seed=0) is None


def test_auc_of_lists_of_different_length_is_refused():
    with pytest.raises(ValueError, match="2 classes for 1 scores"):
        roc_auc([True, False], [1.0])
    with pytest.raises(ValueError, match="1 units for 2 scores"):
        roc_auc_interval([True, False], [1.0, 0.0], ["q"], seed=0)


@given(st.integers(min_value=1, max_value=300), st.data())
def test_wilson_and_binomial_agree_with_scipy(trials, data):
    successes = data.draw(st.integers(min_value=0, max_value=trials))
    reference = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert wilson_interval(successes, trials) == pytest.approx(
        (reference.low, reference.high), abs=1e-12
    )
    weights = stats.binom.pmf(np.arange(trials + 1), trials, 0.5)
    exact = weights[weights <= weights[successes] * (1 + 1e-7)].sum()
    assert binomial_p(successes, trials) == pytest.approx(min(exact, 1.0))


def test_nothing_tried_has_neither_interval_nor_p_value():
    assert wilson_interval(0, 0) is None
    assert binomial_p(0, 0) is None


@pytest.mark.parametrize("function", [wilson_interval, binomial_p])
@pytest.mark.parametrize("counts", [(-1, 3), (4, 3)])
def test_impossible_counts_are_refused(function, counts):
    with pytest.raises(ValueError, match="expected 0 <= successes <= trials"):
        function(*counts)
