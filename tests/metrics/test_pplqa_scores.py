import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.metrics.geval import geval
from opencompass_ext.metrics.gptscore import gptscore
from opencompass_ext.metrics.parts import Part
from opencompass_ext.metrics.pplqa import (
    VARIANTS,
    Pair,
    explained,
    pmi_per_token,
    ppl_a,
    ppl_a_given_q,
    pplqa,
    ratio,
    signed_gap,
)

LOGPROBS = st.lists(st.floats(min_value=-30, max_value=0), min_size=1, max_size=20)


def part(logprobs):
    return Part(-sum(logprobs), len(logprobs))


def pair_of_means(h_q, n_q, h_aq, h_a, n_a):
    return Pair(Part(h_q * n_q, n_q), Part(h_aq * n_a, n_a), Part(h_a * n_a, n_a))


WORKED = Pair(part([-1.0, -2.0]), part([-0.5, -0.5, -1.0]), part([-2.0, -1.0, -1.5]))


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (pplqa, 1.763407),
        (signed_gap, -1.763407),
        (ratio, 2.718282 / 4.481689),
        (ppl_a_given_q, 1.947734),
        (pmi_per_token, 0.833333),
        (explained, 1 - (2 / 3) / 1.5),
        (ppl_a, 4.481689),
    ],
)
def test_a_pair_worked_by_hand(function, value):
    assert function(WORKED).value == pytest.approx(value, abs=1e-6)
    assert function(WORKED).reason is None


@pytest.mark.parametrize(("h_aq", "value"), [(1.5, 1.76), (1.95, 1.08), (2.3, 4.25)])
def test_the_generic_answer_beats_the_entailed_one(h_aq, value):
    pair = pair_of_means(h_q=4.0, n_q=20, h_aq=h_aq, h_a=2.0, n_a=200)
    expected = abs(math.exp((20 * 4.0 + 200 * h_aq) / 220) - math.exp(2.0))
    assert pplqa(pair).value == pytest.approx(expected, abs=1e-6)
    assert pplqa(pair).value == pytest.approx(value, abs=0.005)


def test_conditional_scores_order_what_the_gap_confuses():
    entailed, generic, unrelated = (
        pair_of_means(4.0, 20, h_aq, 2.0, 200) for h_aq in (1.5, 1.95, 2.3)
    )
    for function in (signed_gap, ratio, ppl_a_given_q):
        low, middle, high = (function(p).value for p in (entailed, generic, unrelated))
        assert low < middle < high
    for function in (pmi_per_token, explained):
        high, middle, low = (function(p).value for p in (entailed, generic, unrelated))
        assert low < middle < high


@given(LOGPROBS, LOGPROBS, st.data())
def test_scores_agree_with_a_second_derivation(question, after, data):
    alone = data.draw(st.lists(st.floats(-30, 0), min_size=len(after), max_size=len(after)))
    pair = Pair(part(question), part(after), part(alone))
    both, answer = np.exp(-np.mean(question + after)), np.exp(-np.mean(alone))
    # Of a difference of perplexities nearly equal only the rounding of each is left.
    rounding = 1e-12 * max(both, answer)
    assert pplqa(pair).value == pytest.approx(abs(both - answer), rel=1e-9, abs=rounding)
    assert ratio(pair).value == pytest.approx(both / answer, rel=1e-9)
    assert ppl_a_given_q(pair).value == pytest.approx(np.exp(-np.mean(after)), rel=1e-9)
    assert pmi_per_token(pair).value == pytest.approx(
        np.mean(after) - np.mean(alone), rel=1e-9, abs=1e-9
    )


def test_a_question_that_changes_nothing_explains_nothing():
    pair = Pair(Part(4.0, 2), Part(6.0, 3), Part(6.0, 3))
    assert pmi_per_token(pair).value == 0.0
    assert explained(pair).value == 0.0
    assert gptscore(pair.answer).value == -2.0


@pytest.mark.parametrize("name", VARIANTS)
def test_800_nats_per_token_have_a_reason_and_no_traceback(name):
    pair = Pair(Part(1600.0, 2), Part(1602.0, 2), Part(1600.0, 2))
    score = VARIANTS[name].function(pair)
    if name in ("ratio", "pmi_per_token", "explained"):
        assert math.isfinite(score.value)
    else:
        assert score == (None, "too_large_for_a_float")


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("nll", [None, float("nan"), float("inf")])
def test_a_part_without_a_number_gives_no_score_that_needs_it(name, nll):
    function = VARIANTS[name].function
    lost = Part(nll, 3, "too_long")
    alone = function(Pair(Part(3.0, 2), Part(2.0, 3), lost))
    after = function(Pair(Part(3.0, 2), lost, Part(2.0, 3)))
    assert alone.value is None or name == "ppl_a_given_q"
    assert after.value is None or name == "ppl_a"
    assert {alone.reason, after.reason} <= {"too_long", None}


def test_a_missing_number_without_a_reason_gets_one():
    assert ppl_a(Pair(Part(1.0, 1), Part(1.0, 1), Part(None, 3))).reason == "non_finite_nll"


@pytest.mark.parametrize(
    ("pair", "reasons"),
    [
        (
            Pair(Part(0.0, 0), Part(2.0, 3), Part(4.5, 3)),
            dict.fromkeys(("pplqa", "signed_gap", "ratio"), "no_question_token"),
        ),
        (
            Pair(Part(3.0, 2), Part(2.0, 1), Part(0.0, 0)),
            dict.fromkeys(set(VARIANTS) - {"ppl_a_given_q"}, "no_answer_token"),
        ),
        (Pair(Part(3.0, 2), Part(2.0, 3), Part(3.0, 2)), {"explained": "different_answer_tokens"}),
        (Pair(Part(3.0, 2), Part(2.0, 3), Part(0.0, 3)), {"explained": "answer_without_surprise"}),
    ],
)
def test_what_cannot_be_told_is_null_and_the_rest_is_not(pair, reasons):
    scores = {name: variant.function(pair) for name, variant in VARIANTS.items()}
    assert {name: s.reason for name, s in scores.items() if s.value is None} == reasons


def test_the_reason_of_a_part_is_kept():
    assert pplqa(Pair(Part(None, 2, "too_long"), Part(2.0, 3), Part(2.0, 3))) == (None, "too_long")


def test_gptscore_of_nothing_is_null():
    assert gptscore(Part(0.0, 0)) == (None, "no_answer_token")


def choices(*probabilities):
    return {k: Part(-math.log(p), 1) for k, p in enumerate(probabilities, start=1)}


def test_geval_worked_by_hand():
    rating = geval(choices(0.1, 0.2, 0.4, 0.2, 0.1))
    assert rating.value == pytest.approx(3.0, abs=1e-6)
    assert rating.mass == pytest.approx(1.0, abs=1e-6)


@given(st.floats(min_value=1e-6, max_value=1.0))
def test_a_rating_does_not_depend_on_the_mass_that_it_reports(share):
    rating = geval(choices(0.1 * share, 0.3 * share, 0.6 * share))
    assert rating.value == pytest.approx(2.5)
    assert rating.mass == pytest.approx(share)


def test_ratings_that_no_float_can_tell_from_0_still_have_a_mean():
    rating = geval({1: Part(2000.0, 1), 2: Part(2000.0, 2)})
    assert rating.value == pytest.approx(1.5)
    assert rating.mass == 0.0


def test_a_rating_without_a_number_gives_no_mean_over_the_others():
    assert geval({1: Part(1.0, 1), 2: Part(None, 1, "too_long")}) == (None, None, "too_long")
    assert geval({1: Part(1.0, 1), 2: Part(0.0, 0)}) == (None, None, "no_rating_token")
    assert geval({}) == (None, None, "no_choices")
