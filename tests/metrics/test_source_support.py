"""Two readings of a response, worked by hand and as invariants."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.metrics.parts import Part
from opencompass_ext.metrics.pplqa import Pair, explained
from opencompass_ext.metrics.score import Score
from opencompass_ext.metrics.source_support import (
    Readings,
    nll_after_sources,
    pmi_per_token,
    source_support,
    token_support,
    token_supports,
    weakest,
)

# Nats of single tokens; below 1e-6 a float32 model has only noise.
NATS = st.floats(min_value=1e-6, max_value=30)
TOKENS = st.lists(st.tuples(NATS, NATS), min_size=1, max_size=20)


def readings(after, alone):
    return Readings(Part(math.fsum(after), len(after)), Part(math.fsum(alone), len(alone)))


def test_scores_worked_by_hand():
    # Mean 0.5 nats after the sources, 2 nats alone.
    both = readings([0.25, 0.75], [1.0, 3.0])
    assert source_support(both).value == 0.75
    assert pmi_per_token(both).value == 1.5
    assert nll_after_sources(both).value == 0.5
    # Both tokens lose three quarters of their nats.
    assert token_support([0.25, 0.75], [1.0, 3.0]).value == 0.75


def test_sources_that_explain_nothing_give_zero_and_all_gives_one():
    nats = [1.0, 2.5]
    assert source_support(readings(nats, nats)).value == 0.0
    assert token_support(nats, nats).value == 0.0
    assert source_support(readings([0.0, 0.0], nats)).value == 1.0
    assert token_support([0.0, 0.0], nats).value == 1.0


def test_sources_that_mislead_give_less_than_zero_and_cost_a_token_no_more_than_all():
    assert source_support(readings([6.0, 0.0], [2.0, 1.0])).value == -1.0
    assert [score.value for score in token_supports([6.0, 0.0], [2.0, 1.0])] == [0.0, 1.0]


@given(TOKENS)
def test_it_is_the_share_that_pplqa_calls_explained(tokens):
    both = readings([c for c, _ in tokens], [u for _, u in tokens])
    pair = Pair(Part(1.0, 1), both.after_sources, both.alone)
    assert source_support(both).value == pytest.approx(explained(pair).value)


@given(TOKENS, st.floats(min_value=0.1, max_value=10))
def test_another_unit_of_information_changes_no_share(tokens, factor):
    after, alone = [c for c, _ in tokens], [u for _, u in tokens]
    scaled = [c * factor for c in after], [u * factor for u in alone]
    assert source_support(readings(*scaled)).value == pytest.approx(
        source_support(readings(after, alone)).value, rel=1e-9, abs=1e-9
    )
    assert token_support(*scaled).value == pytest.approx(token_support(after, alone).value)


@given(TOKENS)
def test_it_weighs_each_token_by_what_it_costs_alone(tokens):
    after, alone = [c for c, _ in tokens], [u for _, u in tokens]
    weighted = sum(u * (1 - c / u) for c, u in tokens) / sum(alone)
    assert source_support(readings(after, alone)).value == pytest.approx(
        weighted, rel=1e-9, abs=1e-9
    )
    assert 0 <= token_support(after, alone).value <= 1


@pytest.mark.parametrize("function", [source_support, pmi_per_token, nll_after_sources])
@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (Part(0.0, 0), "no_response_token"),
        (Part(None, 3, "no_sources"), "no_sources"),
        (Part(math.nan, 3), "non_finite_nll"),
    ],
)
def test_what_has_no_value_has_a_reason(function, part, reason):
    assert function(Readings(part, part)) == Score(None, reason)


def test_a_response_without_surprise_has_no_share_but_saves_nothing():
    certain = readings([0.0, 0.0], [0.0, 0.0])
    assert source_support(certain) == Score(None, "response_without_surprise")
    assert pmi_per_token(certain) == Score(0.0)
    assert token_support([0.0, 0.0], [0.0, 0.0]) == Score(0.0)


def test_tokens_without_a_number_leave_the_response_without_one():
    assert token_support([], []) == Score(None, "no_response_token")
    assert token_support([1.0, None], [2.0, 2.0]) == Score(None, "non_finite_nll")
    assert token_supports([math.inf], [2.0]) == [Score(None, "non_finite_nll")]


def test_readings_of_other_tokens_are_refused():
    with pytest.raises(ValueError, match="count 2 and 3 tokens"):
        source_support(Readings(Part(1.0, 2), Part(1.0, 3)))
    with pytest.raises(ValueError, match="zip"):
        token_supports([1.0], [1.0, 2.0])


def test_the_weakest_part_is_one_that_has_tokens():
    empty = Score(None, "no_response_token")
    assert weakest([Score(0.8), empty, Score(-0.5)]) == Score(-0.5)
    assert weakest([Score(0.8), Score(None, "non_finite_nll")]) == Score(None, "non_finite_nll")
    assert weakest([empty]) == empty == weakest([])
