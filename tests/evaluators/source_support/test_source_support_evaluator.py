"""From predictions to metrics, agreement with labels and kinds, all worked by hand."""

import itertools
import math

import pytest

from opencompass_ext.errors import ConfigError, DataError, PredictionsError
from opencompass_ext.evaluators import SourceSupportEvaluator


def reading(nats):
    return {"ppl": sum(nats), "token_len": len(nats), "long_text": "whole", "reason": None}


def prediction(name, after, alone, response=None, cut=None):
    """A response of one-character tokens, its sentences meeting at ``cut``."""
    count = len(after)
    edges = [0, count] if cut is None else [0, cut, count]
    return {
        "id": name,
        "response": response or "x" * count,
        "after_sources": reading(after),
        "alone": reading(alone),
        "sentences": [
            {
                "start": start,
                "end": end,
                "after_sources": reading(after[start:end]),
                "alone": reading(alone[start:end]),
            }
            for start, end in itertools.pairwise(edges)
        ],
        "tokens": {
            "start": [*range(count)],
            "end": [*range(1, count + 1)],
            "after_sources": after,
            "alone": alone,
        },
        "reason": None,
    }


def nothing(name, reason):
    columns = dict.fromkeys(("after_sources", "alone", "sentences", "tokens"))
    return {"id": name, "response": "", **columns, "reason": reason}


def evaluate(predictions, data=None, **options):
    data = [{"id": p["id"]} for p in predictions] if data is None else data
    columns = {key: [p[key] for p in predictions] for key in predictions[0]}
    evaluator = SourceSupportEvaluator(resamples=50, **options)
    return evaluator.evaluate(1, 1, data, test_set=data, **columns)


GOOD = prediction("a", [0.5, 0.5, 1.0], [2.0, 2.0, 2.0], cut=2)
BAD = prediction("b", [3.0, 1.0], [2.0, 2.0])


def test_scores_of_rows_and_their_means():
    results = evaluate([GOOD, BAD, nothing("c", "no_sources")])
    first, second, third = results["details"]
    assert first["source_support"] == pytest.approx(1 - 2 / 6)
    assert first["token_support"] == pytest.approx((0.75 + 0.75 + 0.5) / 3)
    assert first["weakest_sentence"] == 0.5
    assert first["pmi_per_token"] == pytest.approx(4 / 3)
    assert [s["token_support"] for s in first["sentences"]] == [0.75, 0.5]
    assert [s["source_support"] for s in first["sentences"]] == [0.75, 0.5]
    assert second["source_support"] == 0.0
    assert second["token_support"] == 0.25
    assert third["source_support"] is None
    assert third["reasons"]["token_support"] == "no_sources"
    assert results["source_support"] == pytest.approx(1 / 3)
    assert results["weakest_sentence"] == pytest.approx(0.375)
    low, high = results["token_support_ci95"]
    assert 0.25 <= low <= results["token_support"] <= high <= 2 / 3
    assert results["coverage"]["source_support"] == {
        "n_scored": 2,
        "n_total": 3,
        "null_rows": {"no_sources": 1},
    }
    assert results["counts"]["null_rows"] == {"no_sources": 1}
    assert results["report"] == "source_support"


def test_without_a_scored_row_metrics_are_null_with_a_reason():
    results = evaluate([nothing("a", "no_response")])
    assert results["source_support"] is None
    assert results["reasons"]["source_support"] == "no_response"
    assert results["reasons"]["source_support_ci95"] == "no_response"
    assert "auc" not in results


def test_without_single_tokens_source_support_stays():
    results = evaluate([{**GOOD, "tokens": None}, {**BAD, "tokens": None}])
    assert results["source_support"] == pytest.approx(1 / 3)
    assert results["token_support"] is None
    assert results["reasons"]["token_support"] == "no_token_details"


def many(labels_and_supports):
    predictions, data = [], []
    for number, (label, support, length) in enumerate(labels_and_supports):
        after = [2.0 * (1 - support)] * 2
        predictions.append(prediction(f"r{number}", after, [2.0, 2.0], response="y" * length))
        data.append({"id": f"r{number}", "grounded": label, "answer": f"q{number // 2}"})
    return predictions, data


def test_labels_give_an_auc_beside_that_of_length():
    # One of the four pairs is in the wrong order; the short ones are the grounded ones.
    rows = [(1, 0.9, 10), (0, 0.5, 30), (1, 0.4, 20), (0, 0.1, 40), (None, 0.2, 5)]
    predictions, data = many(rows)
    results = evaluate(predictions, data)
    assert results["auc"] == 0.75
    labelled = results["labelled"]
    assert (labelled["n"], labelled["grounded"], labelled["excluded"]) == (4, 2, {})
    by_name = {record["name"]: record for record in labelled["scores"]}
    assert by_name["length"]["auc"] == 1.0
    assert by_name["length"]["direction"] == "shorter"
    assert by_name["token_support"]["versus_length"]["value"] == -0.25
    assert by_name["minus_nll_after_sources"]["auc"] == 0.75


def test_an_auc_that_cannot_be_has_its_reason():
    of_one_class = evaluate(*many([(1, 0.9, 4), (1, 0.1, 4)]))
    labels = [{"id": f"r{i}", "grounded": i} for i in range(2)]
    unscored = evaluate([nothing(row["id"], "no_sources") for row in labels], labels)
    for results, reason in ((of_one_class, "one_class_only"), (unscored, "no_sources")):
        assert results["auc"] is results["auc_ci95"] is None
        assert results["reasons"]["auc"] == results["reasons"]["auc_ci95"] == reason


def test_an_interval_of_an_auc_that_cannot_be_has_its_reason():
    predictions, data = many([(1, 0.9, 4), (0, 0.1, 4)])
    results = evaluate(predictions, data)
    assert (results["auc"], results["auc_ci95"]) == (1.0, None)
    assert results["reasons"]["auc_ci95"] == "undefined_in_some_resamples"


def test_length_gets_the_direction_that_suits_it():
    predictions, data = many([(1, 0.9, 40), (0, 0.5, 30), (1, 0.4, 20), (0, 0.1, 10)])
    record = evaluate(predictions, data)["labelled"]["scores"][-1]
    assert (record["direction"], record["auc"]) == ("longer", 0.75)


def test_a_labelled_row_without_a_score_is_left_out_and_counted():
    predictions, data = many([(1, 0.9, 4), (0, 0.1, 4)])
    predictions.append(nothing("r2", "no_sources"))
    data.append({"id": "r2", "grounded": 0})
    labelled = evaluate(predictions, data)["labelled"]
    assert labelled["n"] == 2
    assert labelled["excluded"] == {"source_support: no_sources": 1}


def test_intervals_resample_the_unit_that_is_named():
    predictions, data = many([(i % 2, 0.2 + 0.05 * (i % 7), 4) for i in range(12)])
    by_row = evaluate(predictions, data)["token_support_ci95"]
    assert evaluate(predictions, data, unit_column="answer")["token_support_ci95"] != by_row
    with pytest.raises(DataError, match="row 0 has no 'page', the unit_column"):
        evaluate(predictions, data, unit_column="page")


def test_rows_of_one_unit_have_no_interval_and_a_reason_that_says_so():
    predictions, data = many([(1, 0.9, 4), (0, 0.5, 4)])
    results = evaluate(predictions, data, unit_column="answer")
    assert results["source_support"] == pytest.approx(0.7)
    assert results["source_support_ci95"] is None
    assert results["reasons"]["source_support_ci95"] == "fewer_than_two_scored_units"


@pytest.mark.parametrize("column", ["kind", "group"])
def test_a_kind_or_group_that_is_none_is_refused(column):
    predictions, data = many([(1, 0.9, 4), (0, 0.5, 4)])
    for number, row in enumerate(data):
        row.update(kind="ab"[number], group=1)
    data[1][column] = ["b"]
    with pytest.raises(DataError, match=f"row 1: '{column}' must be text or a whole number"):
        evaluate(predictions, data)


def test_kinds_are_compared_within_their_group():
    predictions, data = many([(1, 0.9, 4), (0, 0.5, 4), (1, 0.4, 4), (0, 0.6, 4)])
    for number, row in enumerate(data):
        row |= {"kind": "copy" if row["grounded"] else "negation", "group": f"g{number // 2}"}
    kinds = evaluate(predictions, data)["kinds"]
    assert [(m["kind"], m["n"], m["grounded"]) for m in kinds["means"]] == [
        ("copy", 2, True),
        ("negation", 2, False),
    ]
    assert kinds["means"][0]["token_support"] == pytest.approx(0.65)
    (pair,) = kinds["pairs"]
    assert (pair["grounded"], pair["not_grounded"]) == ("copy", "negation")
    assert (pair["token_support"]["wins"], pair["token_support"]["losses"]) == (1, 1)


def test_the_cosine_of_the_nearest_source_is_a_rival(monkeypatch):
    class Embedder:
        def __init__(self, path):
            assert path == "somewhere"

        def cosines(self, pairs):
            return [1.0 if source == "near" else 0.2 for _, source in pairs]

    monkeypatch.setattr("opencompass_ext.models.embedding.SentenceEmbedder", Embedder)
    predictions, data = many([(1, 0.1, 4), (0, 0.9, 4)])
    data[0]["sources"], data[1]["sources"] = ["far", "near", " "], ["far"]
    labelled = evaluate(predictions, data, embedding_model={"path": "somewhere"})["labelled"]
    assert {r["name"]: r["auc"] for r in labelled["scores"]}["cosine"] == 1.0
    with pytest.raises(ConfigError, match="embedding_model must be a dict with the 'path'"):
        evaluate(predictions, data, embedding_model={"paht": "somewhere"})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"after_sources": {"ppl": 1.0}}, "row 0: 'after_sources' must hold 'ppl' and 'token_len'"),
        ({"alone": reading([1.0])}, "'after_sources' counts 3 tokens and 'alone' 1"),
        ({"tokens": {"start": [0]}}, "'tokens' must hold numbers in columns start, end"),
        ({"tokens": {**GOOD["tokens"], "end": [1, 2, None]}}, "'tokens' must hold numbers"),
        ({"tokens": {**GOOD["tokens"], "alone": [1.0, "2", 3.0]}}, "'tokens' must hold numbers"),
        ({"sentences": 3}, "'sentences' must hold 'start', 'end'"),
        ({"reason": ["why"]}, "'reason' must be text or null"),
        ({"sentences": [3]}, "'sentences' must hold 'start', 'end'"),
        ({"id": "z"}, "the prediction is for 'id' 'z', the data set has 'a' there"),
    ],
)
def test_predictions_of_another_form_are_refused(change, told):
    with pytest.raises(PredictionsError) as caught:
        evaluate([{**GOOD, **change}], [{"id": "a"}])
    assert told in str(caught.value)


@pytest.mark.parametrize("label", [2, "yes", 0.5, math.nan])
def test_a_label_that_is_none_is_refused(label):
    with pytest.raises(DataError, match=r"row 0: 'grounded' must be 1 \(grounded\), 0 \(not\)"):
        evaluate([GOOD], [{"id": "a", "grounded": label}])
