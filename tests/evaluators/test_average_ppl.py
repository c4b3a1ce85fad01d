import json
import math

import pytest

from opencompass_ext.errors import ConfigError, PredictionsError
from opencompass_ext.evaluators import AverageInferencePPLEvaluator, BaseEvaluator
from opencompass_ext.records import Likelihood, likelihood_to_row

METRICS = ["average_ppl", "perplexity", "bits_per_byte", "example_weighted_mean"]


def columns(rows):
    """Turn rows of a predictions file into columns, as a task does."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def evaluate(rows):
    return AverageInferencePPLEvaluator().evaluate(1, 1, rows, **columns(rows))


def row(ppl, token_len, **more):
    return {"origin_prompt": "x", "ppl": ppl, "token_len": token_len, **more}


def scored_rows():
    """Rows as the inferencer writes them, one of every kind."""
    return [
        likelihood_to_row(Likelihood(2.0, 4, byte_len=10, unscored_tokens=1), "whole"),
        likelihood_to_row(Likelihood(9.0, 2, byte_len=6, truncated_tokens=5), "truncate"),
        likelihood_to_row(Likelihood(0.0, 0, unaligned_chars=3), "whole"),
        likelihood_to_row(Likelihood(float("nan"), 7, byte_len=9), "window"),
    ]


def test_hand_worked_rows():
    results = evaluate([row(2.0, 4, byte_len=10), row(9.0, 2, byte_len=6)])
    assert results["average_ppl"] == pytest.approx(11 / 6)
    assert results["perplexity"] == pytest.approx(math.e ** (11 / 6))
    assert results["bits_per_byte"] == pytest.approx(11 / 16 / math.log(2))
    assert results["example_weighted_mean"] == 2.5
    assert results["reasons"] == {}
    assert results["lower_is_better"] == METRICS


def test_rows_of_every_kind_are_counted():
    results = evaluate(scored_rows())
    assert results["counts"] == {
        "rows": 4,
        "scored_rows": 2,
        "token_len": 6,
        "unscored_tokens": 1,
        "truncated_tokens": 5,
        "unaligned_chars": 3,
        "windowed_rows": 1,
        "truncated_rows": 1,
        "null_rows": {"non_finite_nll": 1},
    }
    assert results["average_ppl"] == pytest.approx(11 / 6)
    assert results["bits_per_byte"] == pytest.approx(11 / 16 / math.log(2))


def test_details_have_one_entry_per_row_in_order():
    assert evaluate(scored_rows())["details"] == [
        {"ppl": 2.0, "token_len": 4, "mean_nll": 0.5},
        {"ppl": 9.0, "token_len": 2, "mean_nll": 4.5},
        {"ppl": 0.0, "token_len": 0, "mean_nll": None},
        {"ppl": None, "token_len": 7, "mean_nll": None, "reason": "non_finite_nll"},
    ]


def test_null_rows_are_counted_by_reason():
    rows = [row(1.0, 2)] + [row(None, 3, reason=r) for r in ("a", "b", "a", None)]
    assert evaluate(rows)["counts"]["null_rows"] == {"a": 2, "b": 1, "non_finite_nll": 1}


def test_a_file_of_opencompass_is_scored_and_says_what_it_cannot_tell():
    results = evaluate([row(2.0, 4.0), row(float("nan"), 3), row(9.0, 2)])
    assert results["average_ppl"] == pytest.approx(11 / 6)
    assert results["bits_per_byte"] is None
    assert results["reasons"] == {"bits_per_byte": "no_byte_len"}
    assert results["counts"]["null_rows"] == {"non_finite_nll": 1}
    for unknown in ("unscored_tokens", "truncated_tokens", "windowed_rows", "truncated_rows"):
        assert results["counts"][unknown] is None


def test_a_column_that_some_rows_lack_is_unknown_not_zero():
    results = evaluate([row(2.0, 4, byte_len=3, unscored_tokens=1), row(9.0, 2)])
    assert results["bits_per_byte"] is None
    assert results["counts"]["unscored_tokens"] is None


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([row(0.0, 0, byte_len=0)] * 2, "no_counted_token"),
        ([row(None, 3), row(None, 4)], "no_finite_nll"),
        ([row(None, 3), row(0.0, 0)], "no_counted_token"),
    ],
)
def test_nothing_counted_gives_null_and_a_reason(rows, reason):
    results = evaluate(rows)
    assert [results[m] for m in METRICS] == [None] * 4
    assert results["average_ppl_ci95"] is None
    assert {m: results["reasons"][m] for m in METRICS} == dict.fromkeys(METRICS, reason)
    json.dumps(results, allow_nan=False)


def test_no_rows_at_all_give_null_and_a_reason():
    results = AverageInferencePPLEvaluator().score(ppl=[], token_len=[])
    assert results["average_ppl"] is None
    assert results["reasons"]["average_ppl"] == "no_rows"


def test_one_scored_row_has_no_interval():
    results = evaluate([row(2.0, 4)])
    assert results["average_ppl_ci95"] is None
    assert results["reasons"]["average_ppl_ci95"] == "fewer_than_two_scored_rows"


def test_the_interval_surrounds_the_mean_and_follows_the_seed():
    rows = [row(float(i % 7), 1 + i % 3) for i in range(40)]
    low, high = evaluate(rows)["average_ppl_ci95"]
    assert low < evaluate(rows)["average_ppl"] < high
    assert evaluate(rows)["average_ppl_ci95"] == [low, high]
    other = AverageInferencePPLEvaluator(seed=1).evaluate(1, 1, rows, **columns(rows))
    assert other["average_ppl_ci95"] != [low, high]


def test_a_perplexity_beyond_floats_is_null_and_the_mean_stays():
    results = evaluate([row(9000.0, 3), row(9000.0, 3)])
    assert results["average_ppl"] == 3000.0
    assert results["perplexity"] is None
    assert results["reasons"]["perplexity"] == "too_large_for_a_float"


def test_a_sum_beyond_floats_is_no_finite_one():
    results = evaluate([row(1.0, 2), row(10**400, 3)])
    assert results["average_ppl"] == 0.5
    assert results["counts"]["null_rows"] == {"non_finite_nll": 1}


def test_results_are_strict_json():
    assert json.loads(json.dumps(evaluate(scored_rows()), allow_nan=False))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (row("2.0", 4), "row 1: 'ppl' must be a number or null, got '2.0'"),
        (row(True, 4), "row 1: 'ppl' must be a number or null, got True"),
        (row(2.0, None), "row 1: 'token_len' must be a whole number, got None"),
        (row(2.0, -1), "row 1: 'token_len' must be a whole number, got -1"),
        (row(2.0, 1.5), "row 1: 'token_len' must be a whole number, got 1.5"),
        (row(2.0, 10**400), "row 1: 'token_len' must be a whole number, got 1000"),
        (row(2.0, "4"), "row 1: 'token_len' must be a whole number, got '4'"),
        (row(2.0, 4, byte_len="9"), "row 1: 'byte_len' must be a whole number or null, got '9'"),
        (row(2.0, 4, unaligned_chars=-1), "row 1: 'unaligned_chars' must be a whole number or"),
        (row(None, 4, reason=3), "row 1: 'reason' must be text or null, got 3"),
        (row(2.0, 0), "row 1: 'ppl' is 2.0 over 'token_len' 0"),
    ],
)
def test_a_row_that_cannot_be_is_named(bad, says):
    with pytest.raises(PredictionsError) as caught:
        evaluate([row(1.0, 2), bad])
    assert str(caught.value).startswith(says)


class Lengths(BaseEvaluator):
    def score(self, predictions, references=None, scale=2):
        return {"n": len(predictions) * scale, "has_references": references is not None}


class Everything(BaseEvaluator):
    def score(self, **given):
        return {"names": sorted(given)}


def test_score_gets_the_columns_that_it_names():
    results = Lengths().evaluate(1, 1, [0, 0], predictions=["a", "b"], origin_prompt=["x", "y"])
    assert results == {"n": 4, "has_references": False}
    both = {"predictions": ["a"], "references": ["b"]}
    assert Lengths().evaluate([1], 1, [0], **both)["has_references"]


def test_score_with_double_star_gets_all_columns():
    assert Everything().evaluate(1, 1, [0], b=[1], a=[2])["names"] == ["a", "b"]


def test_a_column_that_is_not_there_is_named_with_its_near_one():
    with pytest.raises(PredictionsError) as caught:
        Lengths().evaluate(1, 1, [0], prediction=["a"])
    assert str(caught.value) == (
        "Lengths needs the column 'predictions', which the predictions do not have: "
        "did you mean 'prediction'?"
    )


def test_a_column_of_another_length_is_refused():
    with pytest.raises(PredictionsError, match="'predictions' has 2 entries for 3 rows"):
        Lengths().evaluate(1, 1, [0, 0, 0], predictions=["a", "b"])
    with pytest.raises(PredictionsError, match="'references' has 1 entries for 2 rows"):
        Lengths().evaluate(1, 1, None, predictions=["a", "b"], references=["a"])


def test_without_the_data_set_the_columns_tell_the_number_of_rows():
    assert Lengths().evaluate(1, 1, None, predictions=["a", "b"])["n"] == 4


@pytest.mark.parametrize(("k", "n"), [(1, 2), (2, 1), ([1, 2], 1), (1, 0)])
def test_repeated_runs_are_refused(k, n):
    with pytest.raises(ConfigError, match="expected n=1 and k=1"):
        Lengths().evaluate(k, n, [0, 0], predictions=["a", "b"])
