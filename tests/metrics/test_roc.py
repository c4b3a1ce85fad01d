import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from opencompass_ext.metrics.bootstrap import draw_counts
from opencompass_ext.metrics.roc import roc_auc, roc_auc_difference_interval, roc_auc_interval

# Few different scores, so that equal ones are common.
SCORED = st.lists(st.tuples(st.booleans(), st.integers(min_value=-3, max_value=3)), max_size=40)


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
    with pytest.raises(ValueError, match="2 classes for 1 scores"):
        roc_auc_difference_interval([True, False], [1.0, 0.0], [1.0], seed=0)


def test_the_difference_of_two_areas_is_resampled_in_pairs():
    rng = np.random.default_rng(1)
    classes = rng.random(50) < 0.5
    one, other = rng.normal(size=50) + classes, rng.normal(size=50)
    areas = []
    for row in next(draw_counts(50, seed=2, resamples=80)):
        drawn = np.repeat(np.arange(50), row.astype(int))
        difference = roc_auc_score(classes[drawn], one[drawn])
        areas.append(difference - roc_auc_score(classes[drawn], other[drawn]))
    got = roc_auc_difference_interval(
        classes.tolist(), one.tolist(), other.tolist(), seed=2, resamples=80
    )
    assert got == pytest.approx(tuple(np.quantile(areas, [0.025, 0.975])))


def test_areas_that_do_not_exist_do_not_differ():
    assert roc_auc_difference_interval([True], [0.5], [0.5], seed=0) is None
