import math

import pytest

from opencompass_ext.errors import PredictionsError


def ratings(make, *probabilities):
    return {str(k): make.likelihood(-math.log(p), 1) for k, p in enumerate(probabilities, start=1)}


def test_gptscore_worked_by_hand(evaluate, make):
    test_set = [make.row("q1", "x"), make.row("q2", "x")]
    predictions = [{"gptscore": make.likelihood(6.0, 4)}, {"gptscore": make.likelihood(1.0, 2)}]
    results = evaluate(test_set, predictions, "gptscore")
    assert [detail["gptscore"] for detail in results["details"]] == [-1.5, -0.5]
    assert results["gptscore"] == -1.0
    assert results["lower_is_better"] == []
    assert results["report"] == "gptscore"


def test_gptscore_is_set_against_length(evaluate, make):
    votes = [{"a": "x", "b": "y", "winner": "a"}]
    test_set = [make.row("q", s, s * n, preferences=votes) for s, n in (("x", 3), ("y", 9))]
    predictions = [{"gptscore": make.likelihood(nll, 4)} for nll in (2.0, 6.0)]
    results = evaluate(test_set, predictions, "gptscore")
    assert (results["accuracy"], results["longer_wins"]) == (1.0, 0.0)
    (group,) = results["analysis"]["preferences"]["votes"]["groups"]
    assert [record["name"] for record in group["predictors"]] == ["gptscore", "answer_chars"]


def test_geval_worked_by_hand(evaluate, make):
    test_set = [make.row("q1", "x"), make.row("q2", "x")]
    predictions = [
        {"geval": ratings(make, 0.1, 0.2, 0.4, 0.2, 0.1)},
        {"geval": ratings(make, 0.05, 0.0125, 0.0125, 0.0125, 0.0125)},
    ]
    results = evaluate(test_set, predictions, "geval")
    assert results["details"][0]["geval"] == pytest.approx(3.0, abs=1e-6)
    assert results["details"][0]["geval_mass"] == pytest.approx(1.0)
    assert results["details"][1]["geval"] == pytest.approx((0.05 + 0.0125 * 14) / 0.1)
    assert results["geval_mass"] == pytest.approx((1.0 + 0.1) / 2)
    assert list(results)[:2] == ["geval", "geval_mass"]
    assert "mean probability of 0.55" in results["analysis"]["statement"][-1]


def test_a_row_without_ratings_is_null_with_its_reason(evaluate, make):
    test_set = [make.row("q1", "x"), make.row("q2", "x"), make.row("q3", "x")]
    whole = ratings(make, 0.5, 0.5)
    predictions = [
        {"geval": whole, "reason": None},
        {"geval": None, "reason": "blank_answer"},
        {"geval": {**whole, "2": make.likelihood(None, 1, reason="too_long")}, "reason": None},
    ]
    results = evaluate(test_set, predictions, "geval")
    assert results["counts"]["null_rows"] == {"blank_answer": 1, "too_long": 1}
    assert results["geval"] == pytest.approx(1.5)
    nothing = evaluate(test_set[1:2], predictions[1:2], "geval")
    assert (nothing["geval"], nothing["geval_mass"]) == (None, None)
    assert nothing["reasons"] == dict.fromkeys(
        ("geval", "geval_ci95", "geval_mass"), "blank_answer"
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1, 2], "row 0: 'geval' must hold a likelihood for each rating, got"),
        ({"good": {"ppl": 1.0, "token_len": 1}}, "row 0: 'geval' must have numbers as keys"),
        ({"nan": {"ppl": 1.0, "token_len": 1}}, "row 0: 'geval' must have numbers as keys"),
        ({"1": 0.5}, "row 0: 'geval 1' must hold 'ppl' and 'token_len', got 0.5"),
    ],
)
def test_ratings_that_cannot_be_are_named(evaluate, make, value, says):
    with pytest.raises(PredictionsError) as caught:
        evaluate([make.row("q1", "x")], [{"geval": value}], "geval")
    assert str(caught.value).startswith(says)
