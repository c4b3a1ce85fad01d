"""What one score lacks takes nothing from the others."""

import logging

import pytest

from opencompass_ext.evaluators import PPLqaSanityEvaluator
from opencompass_ext.summarizers.reports import REPORTS
from opencompass_ext.summarizers.reports.render import to_markdown

HEADLINES = ("accuracy", "mcc", "f1_first", "f1_second", "longer_wins", "tau_b", "mean_tau", "auc")


@pytest.fixture
def voted(make):
    """Make 40 questions with one vote, two ranks and two labels each; pplqa is right in 30.

    In the first ``other_tokens`` questions the answer that stands first has other tokens alone than
    behind the question, which takes ``explained`` from it and nothing else.
    """

    def voted(other_tokens=0):
        test_set, predictions = [], []
        for number in range(40):
            winner = "x" if number % 2 else "y"
            votes = [{"a": "x", "b": "y", "winner": "a" if winner == "x" else "b"}]
            for place, system in enumerate("xy"):
                is_better = (system == winner) == (number % 4 != 0)
                test_set.append(
                    make.row(
                        f"q{number}",
                        system,
                        "x" * (10 + (number * 7 + place * 3) % 11),
                        preferences=votes,
                        rank=1 if system == winner else 2,
                        grounded=int(system == winner),
                    )
                )
                h = (1.0 if is_better else 1.3) + number / 1000
                row = make.prediction(h_q=h, h_aq=h, h_a=0.1)
                if place == 0 and number < other_tokens:
                    row["a"]["token_len"] += 1
                    # The same mean, so that pplqa does not change.
                    row["a"]["ppl"] = 0.1 * row["a"]["token_len"]
                predictions.append(row)
        return test_set, predictions

    return voted


def overall(results, kind="preferences"):
    found = results["analysis"][kind]
    if kind == "preferences":
        found = found["votes"]
    return found if kind == "groundedness" else found["groups"][0]


@pytest.mark.parametrize("other_tokens", [1, 20, 40])
def test_headline_figures_are_on_all_votes_of_the_score(voted, evaluate, other_tokens):
    whole, partly = evaluate(*voted()), evaluate(*voted(other_tokens))
    assert whole["accuracy"] == 0.75
    for name in HEADLINES:
        assert partly[name] == pytest.approx(whole[name]), name
        if f"{name}_ci95" in whole:
            assert partly[f"{name}_ci95"] == pytest.approx(whole[f"{name}_ci95"]), name
    assert partly["analysis"]["statement"] == whole["analysis"]["statement"]
    for kind, n in (("preferences", 40), ("ranks", 80), ("groundedness", 80)):
        assert overall(partly, kind)["n"] == n
        assert overall(partly, kind)["excluded"] == {}
    win_rates = [
        {s["system"]: s["win_rate"] for s in r["analysis"]["systems"]["systems"]}
        for r in (whole, partly)
    ]
    assert win_rates[0] == win_rates[1]


@pytest.mark.parametrize("kind", ["preferences", "ranks", "groundedness"])
def test_a_score_that_lacks_some_is_compared_on_what_it_has(voted, evaluate, kind):
    test_set, predictions = voted(20)
    found = overall(evaluate(test_set, predictions), kind)
    assert "explained" not in [record["name"] for record in found["predictors"]]
    (block,) = found["partial"]
    assert (block["score"], block["lacks"]) == ("explained", {"different_answer_tokens": 20})
    assert block["n"] == found["n"] - 20
    assert [r["name"] for r in block["predictors"]] == ["explained", "pplqa", "answer_chars"]
    if kind == "preferences":
        # The second half alone, worked out as a data set of its own.
        alone = overall(evaluate(test_set[40:], predictions[40:]), kind)
        own = {record["name"]: record for record in alone["predictors"]}
        assert block["predictors"] == [
            {**own[name], "versus_length": own[name]["versus_length"]}
            if name != "answer_chars"
            else own[name]
            for name in ("explained", "pplqa", "answer_chars")
        ]


def test_a_score_without_any_value_is_named(voted, evaluate, make):
    test_set, predictions = voted(40)
    for row in predictions[1::2]:
        row["a"] = make.likelihood(0.1 * 11, 11)
    results = evaluate(test_set, predictions)
    assert overall(results)["n"] == 40
    assert results["analysis"]["not_compared"] == {"explained": {"different_answer_tokens": 80}}


def test_the_report_names_what_is_apart_and_shows_it_beside_the_score(voted, evaluate):
    text = to_markdown(REPORTS["pplqa"]("d", {"m": evaluate(*voted(40))}))
    assert "40 votes on 40 questions, the same for every score." in text
    lacks = "explained is not above: it lacks a value on 40 of the {}: different"
    assert lacks.format("40 votes") in text
    assert lacks.format("80 answers") in text
    assert lacks.format("80 labelled answers") in text
    assert "## Preferences, per vote: scores that lack some" in text
    assert "| pplqa ↓, on the same votes | 0 |" in text
    assert "explained is over 40 answers, pplqa over 80" in text
    assert "No decided vote" not in text


def test_votes_that_the_score_itself_lacks_are_named_with_the_reason(voted, evaluate, make):
    test_set, predictions = voted()
    for row in predictions[::2]:
        row["a"] = make.likelihood(None, 10, reason="non_finite_nll")
    results = evaluate(test_set, predictions)
    assert results["accuracy"] is None
    said = " ".join(results["analysis"]["statement"])
    assert "both have a pplqa (non_finite_nll (40))" in said
    assert "No answer of x has a score." in said
    assert "Only one system, y, has answers with a score, so there is no rank." in said


def test_no_score_at_all_is_said_with_its_reasons_and_warned_of(voted, evaluate, caplog):
    test_set, predictions = voted()
    lost = [{"q": None, "a_given_q": None, "a": None, "reason": "no_sources"} for _ in predictions]
    lost[0]["reason"] = "blank_answer"
    with caplog.at_level(logging.WARNING):
        results = evaluate(test_set, lost)
    reasons = "no_sources (79), blank_answer (1)"
    assert results["analysis"]["statement"][0] == (
        f"There are no answers with a pplqa to compare (reasons: {reasons})."
    )
    assert caplog.messages == [
        f"none of the 80 answers has a pplqa, so there is nothing to compare; reasons: {reasons}"
    ]
    text = to_markdown(REPORTS["pplqa"]("d", {"m": results}))
    assert f"Not ranked: no answers with a score to compare (reasons: {reasons})." in text.replace(
        "\\", ""
    )
    assert "share" not in text.split("Win rate:")[0]


def test_one_system_is_said_to_be_the_only_one(evaluate, make, caplog):
    results = evaluate(
        [make.row("q1", "x"), make.row("q2", "x")], [make.prediction(), make.prediction()]
    )
    assert results["analysis"]["statement"] == ["There is only one system, x, so there is no rank."]
    text = to_markdown(REPORTS["pplqa"]("d", {"m": results}))
    assert "Not ranked: there is only one system." in text
    assert not caplog.messages


def test_systems_without_a_common_question_are_still_said_to_be_so(evaluate, make):
    results = evaluate(
        [make.row("q1", "x"), make.row("q2", "y")], [make.prediction(), make.prediction()]
    )
    said = "No two systems have a score on the same question, so there is no rank."
    assert results["analysis"]["statement"][-1] == said


def test_models_on_other_votes_are_said_to_be(voted, evaluate, make):
    test_set, predictions = voted()
    whole = evaluate(test_set, predictions)
    predictions[0] = make.prediction(a=make.likelihood(None, 10, reason="non_finite_nll"))
    partly = evaluate(test_set, predictions)
    text = to_markdown(REPORTS["pplqa"]("d", {"m1": whole, "m2": partly}))
    assert "The models have scores of different answers; without one: m1 (0), m2 (1)." in text
    assert "The models are scored on different votes" in text
    assert "votes on an answer without a score: m1 (0), m2 (1)." in text
    alike = to_markdown(REPORTS["pplqa"]("d", {"m1": partly, "m2": partly}))
    assert "not on the same votes" not in alike
    assert "different answers" not in alike
    # What a rival lacks makes no difference to the models.
    rival = to_markdown(REPORTS["pplqa"]("d", {"m1": whole, "m2": evaluate(*voted(9))}))
    assert "not on the same votes" not in rival


def test_a_rival_takes_no_question_from_the_battery(make):
    kinds, test_set = ("entailed", "subtly_wrong", "unrelated"), []
    columns = {"q": [], "a_given_q": [], "a": []}
    for number in range(4):
        for place, kind in enumerate(kinds):
            test_set.append(make.row(f"q{number}", kind))
            row = make.prediction(h_q=1.0 + place, h_aq=1.0 + place, h_a=0.1)
            if number == 0 and place == 1:
                row["a"]["token_len"] += 1
            for name, column in columns.items():
                column.append(row[name])
    results = PPLqaSanityEvaluator().evaluate(1, 1, test_set, test_set=test_set, **columns)
    assert (results["correct_best"], results["strict_order"]) == (1.0, 1.0)
    (group,) = results["analysis"]["groups"]
    assert (group["questions"], group["excluded"]) == (4, {})
    (block,) = group["partial"]
    assert (block["score"], block["questions"]) == ("explained", 3)
    assert block["lacks"] == {"subtly_wrong, explained: different_answer_tokens": 1}
    text = to_markdown(REPORTS["pplqa_sanity"]("d", {"m": results})).replace("\\", "")
    assert "explained is not above: it lacks a value on 1 of the 4 questions" in text
    assert "| pplqa ↓, on the same questions | 3 |" in text


def test_a_battery_without_any_score_is_warned_of(make, caplog):
    test_set = [make.row("q", kind) for kind in ("entailed", "subtly_wrong", "unrelated")]
    nothing = [None] * 3
    results = PPLqaSanityEvaluator().evaluate(
        1, 1, test_set, test_set=test_set, q=nothing, a_given_q=nothing, a=nothing
    )
    assert results["correct_best"] is None
    assert caplog.messages[0].startswith("none of the 3 answers has a pplqa")


def test_one_vote_is_no_plural(evaluate, make):
    votes = [{"a": "x", "b": "y", "winner": "a"}]
    test_set = [
        make.row("q", system, system * length, preferences=votes, grounded=grounded)
        for system, length, grounded in (("x", 3, 1), ("y", 4, 0))
    ]
    results = evaluate(test_set, [make.prediction(h_aq=1.8), make.prediction(h_aq=1.9)])
    text = to_markdown(REPORTS["pplqa"]("d", {"m": results}))
    said = " ".join(results["analysis"]["statement"])
    assert "of 1 vote, on too few questions to tell from chance." in said
    assert "1 vote on 1 question, the same for every score." in text
    assert "Ranked by the mean over the 1 question with a score of every system." in text
    for wrong in (" 1 votes", " 1 questions", " 1 answers", " 1 labelled answers"):
        assert wrong not in text
