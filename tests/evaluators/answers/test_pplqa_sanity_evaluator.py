import json
import math

import pytest

from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.evaluators import PPLqaSanityEvaluator
from opencompass_ext.metrics.binary import wilson_interval
from opencompass_ext.summarizers.reports import REPORTS
from opencompass_ext.summarizers.reports.render import to_markdown

KINDS = ("entailed", "generic", "verbose", "subtly_wrong", "unrelated")


def columns(rows):
    return {name: [row.get(name) for row in rows] for name in ("q", "a_given_q", "a", "reason")}


@pytest.fixture
def battery(make):
    """Make a battery from the wanted |PPL(qa) - PPL(a)| of each kind, in order, per question."""

    def battery(*questions, category=lambda number: "en" if number % 2 == 0 else "zh"):
        test_set, predictions = [], []
        for number, gaps in enumerate(questions):
            for kind, gap in zip(KINDS, gaps, strict=True):
                length = 40 if kind == "verbose" else 10
                test_set.append(
                    make.row(f"q{number}", kind, "x" * length, category=category(number))
                )
                h = math.log1p(gap)
                tokens = length // 2
                predictions.append(make.prediction(h_q=h, h_aq=h, h_a=0.0, n_a=tokens))
        return test_set, predictions

    return battery


def run(test_set, predictions, **options):
    return PPLqaSanityEvaluator(**options).evaluate(
        1, 1, test_set, test_set=test_set, **columns(predictions)
    )


def primary(results, group=0):
    return results["analysis"]["groups"][group]["predictors"][0]


def test_a_battery_worked_by_hand(battery):
    results = run(*battery((1, 5, 6, 2, 3), (1, 5, 6, 3, 2), (2, 1, 6, 3, 4), (3, 2, 1, 3, 4)))
    assert results["correct_best"] == 0.5
    # The first and third are in order; in the fourth the correct and the wrong answer are equal.
    assert results["strict_order"] == 0.5
    own = primary(results)
    assert own["best"] == {
        "entailed": 0.5,
        "generic": 0.25,
        "verbose": 0.25,
        "subtly_wrong": 0.0,
        "unrelated": 0.0,
    }
    assert own["strict_order_ci95"] == wilson_interval(2, 4)
    assert own["correct_beats"]["subtly_wrong"]["share"] == 0.75
    assert own["correct_beats"]["unrelated"]["share"] == 1.0
    assert json.loads(json.dumps(results, allow_nan=False))


def test_languages_are_reported_one_by_one(battery):
    results = run(*battery((1, 5, 6, 2, 3), (9, 1, 6, 2, 3), (1, 5, 6, 2, 3)))
    groups = results["analysis"]["groups"]
    assert [(g["category"], g["questions"]) for g in groups] == [(None, 3), ("en", 2), ("zh", 1)]
    assert primary(results, 1)["correct_best"] == 1.0
    assert primary(results, 2)["correct_best"] == 0.0


def test_the_line_over_the_length_is_that_of_all_answers(battery):
    # Only the verbose answer is longer: 20 tokens against 5, and its score 4 against 1.
    results = run(*battery((1, 1, 4, 1, 1), (1, 1, 4, 1, 1)))
    line = primary(results)["lines"]["answer_tokens"]
    assert line["slope"] == pytest.approx(3 / 15)
    assert line["intercept"] == pytest.approx(0.0, abs=1e-9)
    assert (line["r_squared"], line["n"]) == (pytest.approx(1.0), 10)
    assert results["length_r_squared"] == pytest.approx(1.0)
    assert primary(results)["lines"]["answer_chars"]["slope"] == pytest.approx(3 / 30)


def test_equal_answers_are_no_success(battery):
    results = run(*battery((1, 1, 1, 1, 1)))
    assert (results["correct_best"], results["strict_order"]) == (0.0, 0.0)
    assert primary(results)["best"] == dict.fromkeys(KINDS, pytest.approx(0.2))
    assert results["length_r_squared"] is None or results["length_r_squared"] < 1e-9


def test_rivals_are_put_to_the_same_test(battery, make):
    test_set, predictions = battery((1, 5, 6, 2, 3), (1, 5, 6, 2, 3))
    likes = {"entailed": 3.0, "subtly_wrong": 2.0, "unrelated": 1.0}
    column = [make.likelihood(10 * (4 - likes.get(r["model"], 0.5)), 10) for r in test_set]
    results = PPLqaSanityEvaluator().evaluate(
        1, 1, test_set, test_set=test_set, gptscore=column, **columns(predictions)
    )
    records = {r["name"]: r for r in results["analysis"]["groups"][0]["predictors"]}
    assert records["gptscore"]["strict_order"] == 1.0
    # The verbose answer is the longest.
    assert records["answer_chars"]["best"]["verbose"] == 1.0


def test_a_question_without_every_score_is_left_out_and_counted(battery):
    test_set, predictions = battery((1, 5, 6, 2, 3), (1, 5, 6, 2, 3), (1, 5, 6, 2, 3))
    predictions[1]["a"] = None
    results = run(test_set[:-1], predictions[:-1])
    group = results["analysis"]["groups"][0]
    assert group["questions"] == 1
    assert group["excluded"] == {"generic, pplqa: not_scored": 1, "no unrelated answer": 1}
    assert results["counts"]["null_rows"] == {"not_scored": 1}


def test_nothing_whole_gives_null_and_a_reason(battery):
    test_set, predictions = battery((1, 5, 6, 2, 3))
    for row in predictions:
        row["a"] = None
    results = run(test_set, predictions)
    assert results["correct_best"] is None
    assert results["reasons"] == {
        "correct_best": "no_complete_question",
        "strict_order": "no_complete_question",
        "length_r_squared": "no_complete_question",
    }
    text = to_markdown(REPORTS["pplqa_sanity"]("d", {"m": results}))
    assert "No question has a pplqa of every kind of answer (entailed, pplqa: not" in text


def test_a_kind_that_does_not_occur_is_named(battery):
    test_set, predictions = battery((1, 5, 6, 2, 3))
    with pytest.raises(DataError, match=r"no row has the model 'entaild'.*did you mean 'entailed'"):
        run(test_set, predictions, order=["entaild", "generic"])


@pytest.mark.parametrize("order", ["entailed", ["entailed"], ["entailed", "entailed"]])
def test_an_order_that_is_none_is_refused(order):
    with pytest.raises(ConfigError, match="order must be a list of at least two kinds"):
        PPLqaSanityEvaluator(order=order)


def test_the_report_shows_kinds_order_and_length(battery):
    results = run(*battery((1, 5, 6, 2, 3), (1, 5, 6, 3, 2), (2, 1, 6, 3, 4)))
    text = to_markdown(REPORTS["pplqa_sanity"]("sanity", {"m": results}))
    assert text.startswith("# PPLqa sanity battery: sanity, m\n")
    assert "On 3 questions the entailed answer has the best pplqa in 0.667" in text
    assert "entailed \\< subtly_wrong \\< unrelated holds strictly in 0.667" in text
    assert "| questions | n | entailed | generic | verbose | subtly_wrong | unrelated |" in text
    assert "## Every score, zh" in text
    assert "| all | tokens |" in text
