"""Verdicts as numbers: hard, soft, and what is missing."""

import pytest

from opencompass_ext.evaluators.thelma.judged import JudgedRow, ScoringOptions
from opencompass_ext.evaluators.thelma.questions import VerdictKey
from opencompass_ext.evaluators.thelma.rows import RagRow
from opencompass_ext.judging import Decomposition, Source, Verdict

ROW = RagRow("a", "q", (Source("1", "s"), Source("2", "t")), 0, "r", ("r",))


def judged(verdicts, parts=None):
    """A row with these verdicts: (kind, context, unit) -> is it yes, and its probability."""
    row = JudgedRow(ROW, parts={("claims", ""): Decomposition(("c", "d"))} | (parts or {}))
    for key, (is_yes, probability) in verdicts.items():
        row.verdicts[VerdictKey(*key)] = Verdict(key[2], is_yes, probability=probability)
    return row


def test_soft_scores_average_probabilities_and_hard_ones_the_verdicts():
    row = judged(
        {("supported", "sources", "c"): (True, 0.75), ("supported", "sources", "d"): (False, 0.25)}
    )
    hard = row.scores(ScoringOptions(("groundedness",)))
    soft = row.scores(ScoringOptions(("groundedness",), soft=True))
    assert hard["groundedness"].value == soft["groundedness"].value == 0.5
    row.verdicts[VerdictKey("supported", "sources", "d")] = Verdict("d", False, probability=0.0)
    assert row.scores(ScoringOptions(("groundedness",), soft=True))["groundedness"].value == 0.375


def test_soft_coverage_takes_the_most_probable_source():
    row = judged(
        {("covers", "source 1", "u"): (False, 0.3), ("covers", "source 2", "u"): (True, 0.6)},
        {("subquestions", ""): Decomposition(("u",))},
    )
    options = ScoringOptions(("source_query_coverage",), soft=True)
    assert row.scores(options)["source_query_coverage"].value == 0.6


def test_soft_self_distinctness_uses_the_probability_that_sentences_repeat():
    row = judged({("same", "one", "two"): (False, 0.2)})
    row.row = RagRow("a", "q", (), 0, "one two", ("one", "two"))
    options = ScoringOptions(("response_self_distinctness",), soft=True)
    assert row.scores(options)["response_self_distinctness"].value == pytest.approx(0.8)


def test_a_source_that_could_not_be_cut_makes_fact_precision_null_with_its_reason():
    row = judged(
        {},
        {
            ("facts", "1"): Decomposition(("f",)),
            ("facts", "2"): Decomposition(None, "too_long_for_judge"),
        },
    )
    score = row.scores(ScoringOptions(("source_precision_fact",)))["source_precision_fact"]
    assert score == (None, "too_long_for_judge")
    assert row.failures == ["too_long_for_judge"]


def test_a_source_called_like_the_response_is_not_taken_for_it():
    row = JudgedRow(
        RagRow("a", "q", (Source("response", "s"),), 0, "r", ("r",)),
        parts={("subquestions", ""): Decomposition(("u",))},
    )
    row.verdicts[VerdictKey("covers", "source response", "u")] = Verdict("u", True)
    row.verdicts[VerdictKey("covers", "response", "u")] = Verdict("u", False)
    scores = row.scores(ScoringOptions(("source_query_coverage", "response_query_coverage")))
    assert [score.value for score in scores.values()] == [1.0, 0.0]


def test_a_verdict_without_the_probability_that_is_wanted_is_null_with_the_reason():
    row = judged(
        {("supported", "sources", "c"): (True, 0.75), ("supported", "sources", "d"): (False, None)}
    )
    (score,) = row.scores(ScoringOptions(("groundedness",), soft=True)).values()
    assert (score.value, score.reason) == (None, "no_probability")
