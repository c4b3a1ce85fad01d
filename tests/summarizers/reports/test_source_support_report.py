"""What the source-support report says, and when the judge stands beside the likelihood."""

import pytest

from opencompass_ext.evaluators import SourceSupportEvaluator
from opencompass_ext.summarizers.reports import REPORTS
from opencompass_ext.summarizers.reports.groundedness import Pair, groundedness_section
from opencompass_ext.summarizers.reports.render import to_markdown
from opencompass_ext.summarizers.reports.report import UnfitResults


def likelihood(nats):
    return {"ppl": nats, "token_len": 2, "long_text": "whole", "reason": None}


def results(supports, labels=None, kinds=None, tokens=True):
    """Results of responses of two tokens, each token with that support."""
    data = [{"id": f"r{i}"} for i in range(len(supports))]
    for row, label in zip(data, labels or (), strict=False):
        row["grounded"] = label
    for row, (kind, group) in zip(data, kinds or (), strict=False):
        row |= {"kind": kind, "group": group}
    after = [2.0 * (1 - support) for support in supports]
    readings = [likelihood(2 * nats) for nats in after]
    return SourceSupportEvaluator(resamples=20).score(
        after_sources=readings,
        alone=[likelihood(4.0)] * len(data),
        test_set=data,
        id=[row["id"] for row in data],
        response=[f"Answer {i}." for i in range(len(data))],
        sentences=[
            [{"start": 0, "end": 9, "after_sources": r, "alone": likelihood(4.0)}] for r in readings
        ],
        tokens=[
            {"start": [0, 4], "end": [4, 9], "after_sources": [n, n], "alone": [2.0, 2.0]}
            for n in after
        ]
        if tokens
        else None,
    )


def markdown(of):
    return to_markdown(REPORTS["source_support"]("d", {"lm": of}))


def test_it_shows_means_and_the_sentences_with_least_support():
    told = markdown(results([0.75, 0.25]))
    assert "| source_support ↑ | share of the response's NLL" in told
    assert "0.500 [" in told
    assert "(2/2)" in told
    assert told.index("Answer 1.") < told.index("Answer 0.")
    assert "Agreement with human labels" not in told


def test_it_shows_what_people_found_beside_length():
    told = markdown(results([0.9, 0.1, 0.6, 0.4], labels=[1, 0, 1, 0]))
    assert "4 responses have a label, 2 are grounded" in told
    assert "| token_support | 1.000" in told
    assert "| length (shorter) | 0.500" in told


@pytest.mark.parametrize(
    ("supports", "told"),
    [
        ([0.9, 0.1] * 10, "better than their length"),
        ([0.1, 0.9] * 10, "worse than their length"),
        ([0.9, 0.1, 0.1, 0.9] * 5, "does not beat their length"),
        ([0.9, 0.1], "Too few labelled responses"),
    ],
)
def test_it_says_plainly_whether_length_is_beaten(supports, told):
    assert told in markdown(results(supports, labels=[1, 0] * (len(supports) // 2)))


def test_it_compares_kinds():
    kinds = [("copy", "a"), ("negation", "a"), ("copy", "b"), ("negation", "b")]
    told = markdown(results([0.9, 0.8, 0.5, 0.6], labels=[1, 0, 1, 0], kinds=kinds))
    assert "| copy | yes | 2 |" in told
    assert "| copy | negation | 0.500 [" in told
    assert told.count("(2/2) |") == 2


def test_a_comparison_of_kinds_counts_the_pairs_of_each_score():
    kinds = [("copy", "a"), ("negation", "a"), ("copy", "b"), ("negation", "b")]
    of = results([0.9, 0.8, 0.5, 0.6], labels=[1, 0, 1, 0], kinds=kinds, tokens=False)
    (line,) = [line for line in markdown(of).splitlines() if "| copy | negation |" in line]
    assert line.startswith("| copy | negation | 0.500 [")
    assert line.endswith("(2/2) | - (0/2) |")


def test_results_of_another_form_are_told():
    with pytest.raises(UnfitResults):
        REPORTS["source_support"]("d", {"lm": {"report": "source_support"}})


def judged(supported, groundedness):
    details = [
        {"id": d["id"], "response_key": d["response_key"], "groundedness": value}
        for d, value in zip(supported["details"], groundedness, strict=True)
    ]
    return {"details": details}


def side_by_side(judge, support):
    return groundedness_section({Pair("j", "system"): judge}, {Pair("s", "lm"): support})


def test_the_judge_and_the_likelihood_stand_side_by_side():
    support = results([0.9, 0.1, 0.6, 0.5], labels=[1, 0, 1, None])
    section = side_by_side(judged(support, [1.0, 0.0, 0.0, None]), support)
    ((system, model, n, judge, mean, finer, correlation, labelled, *aucs),) = section.table.rows
    assert (system, model, n, labelled) == ("system", "lm", "3", "3")
    assert (judge, mean, finer) == ("0.333", "0.533", "0.533")
    assert correlation == "0.866"
    assert [auc.split()[0] for auc in aucs] == ["0.750", "1.000"]


def test_without_single_tokens_their_mean_is_left_out():
    support = results([0.9, 0.1], labels=[1, 0], tokens=False)
    (row,) = side_by_side(judged(support, [1.0, 0.0]), support).table.rows
    assert row[5] == "-"
    assert row[6] == "1.000"


def test_results_on_other_responses_are_not_compared():
    support = results([0.9, 0.1])
    other = judged(support, [1.0, 0.0])
    for detail in other["details"]:
        detail["response_key"] = "another response"
    assert side_by_side(other, support) is None
    assert groundedness_section({}, {}) is None
