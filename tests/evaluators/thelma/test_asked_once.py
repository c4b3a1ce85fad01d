"""What several metrics share is asked once, and what one metric is does not depend on others."""

import json

import pytest

from opencompass_ext.metrics.thelma import METRICS


@pytest.fixture
def answered(row):
    return row(
        query="What is green tea? Is it hot?",
        sources=["Green tea is a drink. It is hot.", "Green tea is a drink."],
        response="Green tea is a drink. Green tea is a drink. It is cold.",
    )


def asked(judge):
    """Return kind, unit and what it was held against, for every unit of every call."""
    return [
        (call.kind, unit.text, (call.texts or {}).get("sources"))
        for call in judge.calls
        for unit in call.units
    ]


def requests(judge):
    return [(call.kind, json.dumps(call.messages)) for call in judge.calls]


def test_no_request_is_made_twice(evaluate, judges, answered):
    evaluate(answered)
    made = requests(judges[0])
    assert len(made) == len(set(made))
    kinds = [call.kind for call in judges[0].calls if not call.units]
    assert sorted(kinds) == ["claims", "facts", "facts", "subquestions"]


@pytest.mark.parametrize("name", METRICS)
def test_requests_for_a_metric_do_not_depend_on_the_others(evaluate, judges, answered, name):
    evaluate(answered, metrics=[name])
    evaluate(answered)
    alone, among_all = (requests(judge) for judge in judges)
    assert set(alone) <= set(among_all)


def test_fewer_metrics_are_rebuilt_from_the_record_without_a_call(
    evaluate, judges, answered, tmp_path
):
    evaluate(answered, transcript=tmp_path / "t.jsonl")
    for name in METRICS:
        evaluate(answered, transcript=tmp_path / "t.jsonl", metrics=[name])
    assert [judge.calls for judge in judges[1:]] == [[]] * len(METRICS)


def test_a_batch_has_all_its_units_although_some_are_also_in_another(evaluate, judges, row):
    text = "Green tea is a drink."
    evaluate(row(sources=[text], response=f"{text} It is hot."))
    batches = [
        [unit.text for unit in call.units] for call in judges[0].calls if call.kind == "essential"
    ]
    # The one chunk is its one fact: the same question, asked once.
    assert batches == [[text], [text, "It is hot."]]


def test_equal_sentences_are_compared_once(evaluate, judges, answered):
    result = evaluate(answered, metrics=["response_self_distinctness"])
    assert len(asked(judges[0])) == 2
    assert [pair["sentences"] for pair in result["details"][0]["pairs"]] == [[0, 1], [0, 2], [1, 2]]


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_alone_equals_the_metric_among_all(evaluate, answered, name):
    alone, among_all = evaluate(answered, metrics=[name]), evaluate(answered)
    assert alone[name] == among_all[name]
    assert [metric for metric in METRICS if metric in alone] == [name]


def test_only_what_a_metric_needs_is_asked(evaluate, judges, answered):
    evaluate(answered, metrics=["groundedness"])
    assert {call.kind for call in judges[0].calls} == {"claims", "supported"}


def test_usage_is_told_by_kind_of_question_with_the_metrics_it_serves(evaluate, answered):
    usage = evaluate(answered)["usage"]
    assert usage["supported"]["used_for"] == ["groundedness"]
    assert usage["supported"]["judge"]["calls"] == 1
    assert usage["covers"]["used_for"] == ["source_query_coverage", "response_query_coverage"]
    assert usage["covers"]["judge"]["input_tokens"] > 0


@pytest.mark.parametrize("per_call", [1, 10])
def test_units_per_call_changes_calls_and_no_score(evaluate, judges, answered, per_call):
    result = evaluate(answered, units_per_call=per_call)
    assert max(len(call.units) for call in judges[0].calls) <= per_call
    assert result["groundedness"] == pytest.approx(0.5)
