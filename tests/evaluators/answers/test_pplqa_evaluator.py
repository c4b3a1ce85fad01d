import json
import math

import pytest

from opencompass_ext.errors import DataError, PredictionsError
from opencompass_ext.metrics.pplqa import VARIANTS


def group(results, by="votes", category=None):
    found = [
        g for g in results["analysis"]["preferences"][by]["groups"] if g["category"] == category
    ]
    return found[0]


def predictor(group, name):
    return next(record for record in group["predictors"] if record["name"] == name)


def test_a_set_with_a_known_answer(graded_set, evaluate):
    results = evaluate(*graded_set)
    assert (results["accuracy"], results["mcc"]) == (1.0, 1.0)
    assert (results["f1_first"], results["f1_second"]) == (1.0, 1.0)
    assert results["longer_wins"] == 0.0
    assert results["tau_b"] == pytest.approx(1.0)
    assert results["mean_tau"] == pytest.approx(1.0)
    assert [s["system"] for s in results["analysis"]["systems"]["systems"]] == [
        "good",
        "fair",
        "bad",
    ]
    people = results["analysis"]["systems"]["agreement_with_people"]
    assert people["rank"]["value"] == pytest.approx(1.0)
    assert people["win_rate"]["value"] == pytest.approx(1.0)
    assert results["lower_is_better"] == ["pplqa"]
    assert results["report"] == "pplqa"


def test_it_says_when_length_is_beaten(graded_set, evaluate):
    test_set, predictions = graded_set
    results = evaluate([{**row, "answer": "Equally long."} for row in test_set], predictions)
    said = " ".join(results["analysis"]["statement"])
    assert results["longer_wins"] == 0.5
    assert "beats the length baseline: difference in accuracy +0.500 [+0.500, +0.500]" in said
    assert "The answers to a question are all of the same length." in said


def test_a_score_has_to_beat_the_better_direction_of_length(graded_set, evaluate):
    results = evaluate(*graded_set)
    said = " ".join(results["analysis"]["statement"])
    # The shorter answer is always the better one: liking it takes no model.
    assert '"Shorter wins" agrees with 1.000 [1.000, 1.000] of the same votes' in said
    assert "does not beat the length baseline: difference in accuracy +0.000" in said
    assert "the shorter first: 1.000 [1.000, 1.000]" in said
    for found in (results["analysis"]["preferences"]["votes"], results["analysis"]["ranks"]):
        assert found["length_direction"] == "shorter"
        versus = predictor(found["groups"][0], "pplqa")["versus_length"]
        assert versus["value"] == pytest.approx(0.0)


def test_turning_the_scores_round_turns_the_agreement_round(graded_set, evaluate, make):
    test_set, predictions = graded_set
    turned = [make.prediction(h_q=p["a"]["ppl"] or 2.0, h_aq=0.1, h_a=0.0) for p in predictions]
    for row, prediction in zip(test_set, turned, strict=True):
        h = {1: 1.5, 2: 1.0, 3: 0.5}[row["rank"]]
        prediction.update(make.prediction(h_q=h, h_aq=h, h_a=0.0))
    results = evaluate(test_set, turned)
    assert (results["accuracy"], results["mcc"]) == (0.0, -1.0)
    assert results["tau_b"] == pytest.approx(-1.0)
    assert any("is worse than the length baseline" in s for s in results["analysis"]["statement"])


def test_every_variant_and_its_mean_can_be_worked_by_hand(evaluate, make):
    worked = {
        "q": make.likelihood(3.0, 2),
        "a_given_q": make.likelihood(2.0, 3),
        "a": make.likelihood(4.5, 3),
    }
    results = evaluate([make.row("q1", "x", "abc")], [worked])
    (detail,) = results["details"]
    assert detail == {
        "id": "q1",
        "model": "x",
        "pplqa": pytest.approx(1.763407, abs=1e-6),
        "signed_gap": pytest.approx(-1.763407, abs=1e-6),
        "ratio": pytest.approx(math.e / math.exp(1.5)),
        "ppl_a_given_q": pytest.approx(1.947734, abs=1e-6),
        "pmi_per_token": pytest.approx(0.833333, abs=1e-6),
        "explained": pytest.approx(0.555556, abs=1e-6),
        "ppl_a": pytest.approx(4.481689, abs=1e-6),
        "question_tokens": 2,
        "answer_tokens": 3,
        "answer_chars": 3,
    }
    assert results["pplqa"] == pytest.approx(1.763407, abs=1e-6)
    assert results["analysis"]["preferences"] is None
    assert results["analysis"]["ranks"] is None
    assert "accuracy" not in results
    assert json.loads(json.dumps(results, allow_nan=False))


def test_all_rivals_stand_on_exactly_the_same_pairs(graded_set, evaluate, make):
    test_set, predictions = graded_set
    for number, row in enumerate(predictions):
        row["gptscore"] = make.likelihood(5.0 + number % 7, 5)
        row["geval"] = {str(k): make.likelihood(1.0 + k / 10, 1) for k in range(1, 6)}
    predictions[0]["gptscore"] = make.likelihood(None, 5, reason="too_long")
    results = evaluate(test_set, predictions)
    overall = group(results)
    assert [record["name"] for record in overall["predictors"]] == [
        *(name for name in VARIANTS if name != "explained"),
        "geval",
        "answer_chars",
    ]
    assert {record["n"] for record in overall["predictors"]} == {36}
    assert overall["excluded"] == {}
    # GPTScore lacks one answer, so two votes: it stands with pplqa and length on the others.
    (block,) = overall["partial"]
    assert (block["score"], block["n"], block["lacks"]) == ("gptscore", 34, {"too_long": 2})
    assert [record["name"] for record in block["predictors"]] == [
        "gptscore",
        "pplqa",
        "answer_chars",
    ]
    assert {record["n"] for record in block["predictors"]} == {34}
    # h_a is 0 in this set, so there is nothing to explain.
    assert results["analysis"]["not_compared"] == {"explained": {"answer_without_surprise": 36}}


def test_categories_are_reported_one_by_one(graded_set, evaluate):
    results = evaluate(*graded_set)
    groups = results["analysis"]["preferences"]["votes"]["groups"]
    assert [(g["category"], g["n"], g["questions"]) for g in groups] == [
        (None, 36, 12),
        ("even", 18, 6),
        ("odd", 18, 6),
    ]
    assert [(g["category"], g["n"]) for g in results["analysis"]["ranks"]["groups"]] == [
        (None, 36),
        ("even", 18),
        ("odd", 18),
    ]


def test_one_category_is_not_reported_twice(graded_set, evaluate):
    test_set, predictions = graded_set
    for row in test_set:
        row["category"] = "all"
    assert len(evaluate(test_set, predictions)["analysis"]["preferences"]["votes"]["groups"]) == 1


def two_answers(make, votes, chars=(5, 9)):
    test_set = [
        make.row("q", "x", "x" * chars[0], preferences=votes),
        make.row("q", "y", "y" * chars[1], preferences=votes),
    ]
    return test_set, [make.prediction(h_aq=1.8), make.prediction(h_aq=1.5)]


def test_votes_count_one_by_one_and_by_majority(evaluate, make):
    votes = [
        {"a": "x", "b": "y", "winner": "a"},
        {"a": "y", "b": "x", "winner": "b"},
        {"a": "x", "b": "y", "winner": "b"},
        {"a": "x", "b": "y", "winner": "tie"},
    ]
    results = evaluate(*two_answers(make, votes))
    votes, majority = (
        results["analysis"]["preferences"]["votes"],
        results["analysis"]["preferences"]["majority"],
    )
    assert (votes["groups"][0]["ties"], votes["groups"][0]["n"]) == (1, 3)
    assert (majority["groups"][0]["ties"], majority["groups"][0]["n"]) == (0, 1)
    # x is preferred by two of three, whichever way round the votes name it; pplqa of y is lower.
    first = predictor(votes["groups"][0], "pplqa")
    assert first["accuracy"] == pytest.approx(1 / 3)
    assert predictor(majority["groups"][0], "pplqa")["accuracy"] == 0.0
    assert predictor(majority["groups"][0], "ppl_a")["accuracy"] == 0.5


def test_one_vote_per_pair_is_its_own_majority(graded_set, evaluate):
    assert evaluate(*graded_set)["analysis"]["preferences"]["majority"] is None


def test_a_split_vote_is_a_tie_of_the_majority(evaluate, make):
    votes = [{"a": "x", "b": "y", "winner": w} for w in "ab"]
    found = evaluate(*two_answers(make, votes))["analysis"]["preferences"]
    assert [found[by]["groups"][0]["ties"] for by in ("votes", "majority")] == [0, 1]
    assert found["majority"]["groups"][0]["n"] == 0


def test_only_ties_leave_null_and_a_reason(evaluate, make):
    results = evaluate(*two_answers(make, [{"a": "x", "b": "y", "winner": "tie"}]))
    for metric in ("accuracy", "mcc", "f1_first", "longer_wins"):
        assert results[metric] is None
        assert results["reasons"][metric] == "nothing_to_compare"
    assert results["analysis"]["preferences"]["votes"]["groups"][0]["ties"] == 1
    assert any("no vote on two answers is decided" in s for s in results["analysis"]["statement"])


def test_equal_scores_count_half_and_are_counted(evaluate, make):
    votes = [{"a": "x", "b": "y", "winner": "a"}]
    test_set, _ = two_answers(make, votes, chars=(7, 7))
    results = evaluate(test_set, [make.prediction(), make.prediction()])
    for name in ("pplqa", "answer_chars"):
        found = predictor(group(results), name)
        assert (found["accuracy"], found["equal_scores"], found["mcc"]) == (0.5, 1, None)


def test_a_vote_on_an_answer_that_is_not_there_is_counted(evaluate, make):
    votes = [{"a": "x", "b": "z", "winner": "a"}, {"a": "x", "b": "y", "winner": "a"}]
    found = evaluate(*two_answers(make, votes))["analysis"]["preferences"]["votes"]
    assert (found["unanswered"], found["groups"][0]["n"]) == (1, 1)


def test_systems_are_compared_on_common_questions_and_it_says_so(evaluate, make):
    test_set = [make.row("q1", "x"), make.row("q1", "y"), make.row("q2", "x")]
    hs = [1.9, 1.8, 0.1]
    results = evaluate(test_set, [make.prediction(h_aq=h) for h in hs])
    systems = results["analysis"]["systems"]
    assert (systems["common_questions"], systems["questions"]) == (1, 2)
    assert systems["missing"] == {"y": 1}
    assert systems["ranked_by"] == "common_mean"
    said = results["analysis"]["statement"]
    assert said[0] == "Not every system answered all 2 questions; missing answers: y (1)."
    assert "the mean over the 1 question with a score of every system" in said[1]


def test_rows_without_a_score_are_left_out_and_counted(evaluate, make):
    test_set = [make.row("q1", "x"), make.row("q1", "y"), make.row("q1", "z", "")]
    predictions = [
        make.prediction(),
        make.prediction(a=make.likelihood(None, 3, reason="non_finite_nll")),
        {"q": None, "a_given_q": None, "a": None, "reason": "blank_answer"},
    ]
    results = evaluate(test_set, predictions)
    assert results["counts"]["rows"] == 3
    assert results["counts"]["scored_rows"] == 1
    assert results["counts"]["null_rows"] == {"non_finite_nll": 1, "blank_answer": 1}
    assert results["analysis"]["systems"]["unscored"] == ["y", "z"]
    assert results["details"][1]["pplqa"] is None
    assert results["details"][1]["ppl_a_given_q"] is not None
    assert results["details"][2]["reasons"]["pplqa"] == "blank_answer"
    assert any("No answer of y, z has a score." in s for s in results["analysis"]["statement"])


def test_nothing_scored_gives_null_and_the_commonest_reason(evaluate, make):
    test_set = [make.row("q1", "x"), make.row("q2", "x"), make.row("q3", "x")]
    lost = {"q": None, "a_given_q": None, "a": None}
    predictions = [{**lost, "reason": r} for r in ("too_long", "blank_answer", "too_long")]
    results = evaluate(test_set, predictions)
    assert results["pplqa"] is None
    assert results["pplqa_ci95"] is None
    assert results["reasons"]["pplqa"] == "too_long"
    assert json.loads(json.dumps(results, allow_nan=False))


def test_a_cut_text_has_no_score(evaluate, make):
    cut = make.likelihood(18.0, 9, truncated_tokens=4)
    results = evaluate([make.row("q", "x")], [make.prediction(a_given_q=cut)])
    assert results["details"][0]["pplqa"] is None
    assert results["counts"]["null_rows"] == {"truncated_text": 1}


def test_800_nats_per_token_are_null_with_a_reason(evaluate, make):
    results = evaluate([make.row("q", "x")], [make.prediction(h_q=800, h_aq=800, h_a=800)])
    assert results["reasons"]["pplqa"] == "too_large_for_a_float"
    assert results["details"][0]["ratio"] == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_results(graded_set, evaluate):
    assert evaluate(*graded_set) == evaluate(*graded_set)
    assert evaluate(*graded_set, seed=1) != evaluate(*graded_set)


def test_the_order_of_the_rows_changes_no_score(graded_set, evaluate):
    test_set, predictions = graded_set
    forward = evaluate(test_set, predictions)
    back = evaluate(test_set[::-1], predictions[::-1])
    for metric in ("pplqa", "accuracy", "mcc", "longer_wins", "tau_b", "mean_tau"):
        assert back[metric] == pytest.approx(forward[metric])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"q": 3.0}, "row 0: 'q' must hold 'ppl' and 'token_len', got 3.0"),
        ({"q": {"ppl": 3.0}}, "row 0: 'q' must hold 'ppl' and 'token_len'"),
        ({"a": {"ppl": "x", "token_len": 3}}, "row 0: 'ppl' of 'a' must be a number, got 'x'"),
        ({"a": {"ppl": 10**400, "token_len": 3}}, "row 0: 'ppl' of 'a' must be a number, got 1000"),
        ({"a": {"ppl": 1.0, "token_len": 1.5}}, "row 0: 'token_len' of 'a' must be a whole"),
        ({"a": {"ppl": 1.0, "token_len": 0}}, "row 0: 'ppl' of 'a' is 1.0 over 'token_len' 0"),
        (
            {"a": {"ppl": None, "token_len": 3, "reason": {}}},
            "row 0: 'reason' must be text or null",
        ),
        ({"reason": 3}, "row 0: 'reason' must be text or null, got 3"),
        ({"answer_chars": "long"}, "row 0: 'answer_chars' must be a whole number, got 'long'"),
        ({"id": "q9"}, "row 0: the prediction is for 'id' 'q9', the data set has 'q1' there"),
        ({"model": "y"}, "row 0: the prediction is for 'model' 'y', the data set has 'x' there"),
    ],
)
def test_predictions_that_cannot_be_are_named(evaluate, make, change, says):
    with pytest.raises(PredictionsError) as caught:
        evaluate([make.row("q1", "x")], [make.prediction(**change)])
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": None}, "row 0 has no 'id'"),
        ({"rank": "first"}, "row 0: 'rank' must be a number, 1 for the best, got 'first'"),
        ({"preferences": 1}, "row 0: 'preferences' must be a list of preferences, got 1"),
        ({"grounded": 2}, "row 0: 'grounded' must be 0 or 1, got 2"),
        ({"preferences": ["x"]}, "row 0: a preference is"),
        (
            {"preferences": [{"a": "x", "b": "y", "winner": "x"}]},
            "row 0: 'winner' of a preference must be 'a', 'b' or 'tie', got 'x'",
        ),
    ],
)
def test_rows_of_the_data_set_that_cannot_be_are_named(evaluate, make, change, says):
    with pytest.raises(DataError) as caught:
        evaluate([{**make.row("q1", "x"), **change}], [make.prediction()])
    assert str(caught.value).startswith(says)


def test_two_answers_of_a_system_to_one_question_are_refused(evaluate, make):
    with pytest.raises(DataError, match="rows 0 and 1 are both the answer of 'x' to the question"):
        evaluate([make.row("q1", "x"), make.row("q1", "x")], [make.prediction()] * 2)


def test_ties_are_counted_in_their_category(evaluate, make):
    test_set, predictions = [], []
    for question, category, winner in (("q1", "x", "tie"), ("q2", "x", "a"), ("q3", "y", "tie")):
        votes = [{"a": "s", "b": "t", "winner": winner}]
        for system in "st":
            test_set.append(make.row(question, system, category=category, preferences=votes))
            predictions.append(make.prediction())
    groups = evaluate(test_set, predictions)["analysis"]["preferences"]["votes"]["groups"]
    assert [(g["category"], g["n"], g["ties"]) for g in groups] == [
        (None, 1, 2),
        ("x", 1, 1),
        ("y", 0, 1),
    ]


def test_every_null_has_a_reason(evaluate, make):
    votes = [{"a": "x", "b": "y", "winner": "a"}]
    test_set = [
        make.row("q", system, preferences=votes, rank=1, grounded=1) for system in ("x", "y")
    ]
    results = evaluate(test_set, [make.prediction(h_aq=1.8), make.prediction(h_aq=1.9)])
    nulls = {name for name, value in results.items() if value is None}
    assert nulls == set(results["reasons"])
    assert results["reasons"] == {
        "pplqa_ci95": "fewer_than_two_questions",
        "accuracy_ci95": "fewer_than_two_questions",
        "mcc": "one_class_only",
        "mcc_ci95": "one_class_only",
        "f1_second": "class_never_occurs",
        "longer_wins_ci95": "fewer_than_two_questions",
        **dict.fromkeys(
            ("tau_b", "tau_b_ci95", "mean_tau", "mean_tau_ci95"), "no_two_ranks_differ"
        ),
        **dict.fromkeys(("auc", "auc_ci95"), "one_class_only"),
    }


def test_a_metric_that_few_resamples_have_has_no_interval(evaluate, make):
    test_set, predictions = [], []
    # One of 20 comparisons is won by the second answer: a third of the resamples lack that class.
    for number in range(20):
        votes = [{"a": "x", "b": "y", "winner": "b" if number == 0 else "a"}]
        for system, h in (("x", 1.5), ("y", 1.6 if number else 1.4)):
            test_set.append(make.row(f"q{number}", system, preferences=votes))
            predictions.append(make.prediction(h_aq=h))
    results = evaluate(test_set, predictions)
    assert results["mcc"] == 1.0
    assert results["mcc_ci95"] is None
    assert results["reasons"]["mcc_ci95"] == "undefined_in_some_resamples"
