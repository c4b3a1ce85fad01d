import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import confusion_matrix, f1_score, matthews_corrcoef

from opencompass_ext.metrics.binary import (
    Confusion,
    binomial_p,
    f1,
    mcc,
    mcc_of_arrays,
    wilson_interval,
)

CLASSES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)
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
