"""THELMA's arithmetic: hand-worked vectors, second derivations, and what empty sets give."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.metrics.score import Score
from opencompass_ext.metrics.thelma import (
    groundedness,
    response_precision,
    response_query_coverage,
    self_distinctness,
    source_precision,
    source_query_coverage,
)

UNREADABLE = Score(None, "incomplete_verdicts")


def verdicts(*values):
    return [Score(float(value)) for value in values]


@pytest.mark.parametrize(
    ("similarities", "sentences", "distinctness", "as_printed"),
    [((0.2,), 2, 0.8, 0.4), ((1, 1, 0), 3, 1 / 3, 1 / 3), ((0,) * 6, 4, 1.0, 1.5)],
)
def test_self_distinctness_of_known_pairs(similarities, sentences, distinctness, as_printed):
    pairs = verdicts(*similarities)
    assert self_distinctness(pairs, sentences).value == pytest.approx(distinctness)
    printed = self_distinctness(pairs, sentences, literal_eq7=True)
    assert printed.value == pytest.approx(as_printed)


def test_query_coverage_takes_the_best_source_of_each_sub_question():
    table = [verdicts(0, 1), verdicts(0, 0), verdicts(1, 1)]
    assert source_query_coverage(table).value == pytest.approx(2 / 3)


def test_source_precision_of_chunks():
    assert source_precision(verdicts(1, 0, 1)).value == pytest.approx(2 / 3)


def test_facts_of_all_sources_are_pooled_and_not_averaged_source_by_source():
    facts_of_a, facts_of_b = verdicts(1, 1, 1), verdicts(0)
    assert source_precision(facts_of_a + facts_of_b).value == 0.75


@pytest.mark.parametrize(
    "metric",
    [
        source_precision,
        response_precision,
        response_query_coverage,
        groundedness,
        lambda units: self_distinctness(units, sentences=3),
        lambda units: source_query_coverage([[unit] for unit in units]),
        # An unreadable verdict might have been the best one.
        lambda units: source_query_coverage([units]),
    ],
)
def test_one_unreadable_verdict_makes_the_metric_null_and_no_smaller_denominator(metric):
    assert metric([Score(1.0), UNREADABLE, Score(1.0)]) == UNREADABLE


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (source_precision([], has_sources=False), Score(None, "no_sources")),
        (source_precision([]), Score(None, "no_facts")),
        (source_query_coverage([], has_sources=False), Score(0.0)),
        (source_query_coverage([]), Score(None, "no_subquestions")),
        (response_precision([]), Score(None, "no_claims")),
        (response_precision([], has_response=False), Score(None, "no_response")),
        (response_query_coverage([], has_response=False), Score(0.0)),
        (response_query_coverage([]), Score(None, "no_subquestions")),
        (groundedness([]), Score(None, "no_claims")),
        (groundedness([], claims=0, has_sources=False), Score(None, "no_claims")),
        (groundedness([], claims=3, has_sources=False), Score(0.0)),
        (groundedness([], has_response=False, has_sources=False), Score(None, "no_response")),
        (self_distinctness([], sentences=0), Score(None, "no_response")),
        (self_distinctness([], sentences=1), Score(1.0)),
    ],
)
def test_an_empty_set_gives_what_is_documented(score, expected):
    assert score == expected


def test_a_fact_of_the_source_that_the_response_leaves_out_costs_no_groundedness():
    five_claims_of_ten_facts = verdicts(1, 1, 1, 1, 1)
    assert groundedness(five_claims_of_ten_facts).value == 1.0


def test_self_distinctness_asks_for_one_similarity_a_pair():
    with pytest.raises(ValueError, match="3 sentences make 3 pairs, got 2"):
        self_distinctness(verdicts(0, 1), sentences=3)


unit_interval = st.floats(0, 1)


@given(st.lists(st.lists(unit_interval, min_size=2, max_size=2), min_size=1, max_size=6))
def test_coverage_stays_in_range_and_grows_with_every_source(table):
    one = source_query_coverage([verdicts(row[0]) for row in table]).value
    both = source_query_coverage([verdicts(*row) for row in table]).value
    assert 0 <= one <= both <= 1


@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_self_distinctness_equals_a_loop_over_pairs_in_any_order(sentences, random):
    table = {pair: random.random() for pair in itertools.combinations(range(sentences), 2)}
    shuffled = random.sample(list(table.values()), len(table))
    expected = sum(1 - value for value in table.values()) / len(table)
    assert self_distinctness(verdicts(*shuffled), sentences).value == pytest.approx(expected)
