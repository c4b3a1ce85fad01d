"""What a row gives that has no sources, no response, no claims, or a refusal."""

import pytest

SOURCE_METRICS = ["source_precision_chunk", "source_precision_fact"]


@pytest.mark.parametrize("sources", [[], [""], ["  ", "\n"], ["\u200b"]])
def test_no_sources_give_null_or_zero_and_no_call_about_sources(evaluate, judges, row, sources):
    bare = row(sources=sources, response="Green tea cures all.")
    other = row(id="b", response="Green tea is a drink.")
    result = evaluate(bare, other)
    first, second = result["details"]
    assert first["reasons"] == dict.fromkeys(SOURCE_METRICS, "no_sources")
    assert first["source_query_coverage"] == first["groundedness"] == 0.0
    assert second["groundedness"] == second["source_precision_chunk"] == 1.0
    assert result["coverage"]["source_precision_chunk"]["n_scored"] == 1
    assert result["counts"]["blank_sources"] == len(sources)
    (judge,) = judges
    about_first = [call for call in judge.calls if "cures all" in call.messages[-1]["content"]]
    assert {call.kind for call in about_first} == {"claims", "essential", "covers"}


def test_a_claim_without_any_source_is_known_to_be_ungrounded_only_if_there_is_a_claim(
    evaluate, row
):
    result = evaluate(row(sources=[], response="I do not know."), metrics=["groundedness"])
    assert result["details"][0]["reasons"] == {"groundedness": "no_claims"}


@pytest.mark.parametrize("response", [None, "", " \n", "\ufeff"])
def test_no_response_gives_null_or_zero_and_no_call_about_it(evaluate, judges, row, response):
    result = evaluate(row(response=response))
    (detail,) = result["details"]
    assert detail["reasons"] == {
        "response_precision": "no_response",
        "response_self_distinctness": "no_response",
        "groundedness": "no_response",
    }
    assert detail["response_query_coverage"] == 0.0
    assert {call.kind for call in judges[0].calls} == {
        *("facts", "subquestions", "essential", "covers")
    }
    assert result["refusal_rate"] is None
    assert result["counts"]["rows_without_response"] == 1


@pytest.mark.parametrize("sources", [["Green tea is a drink."], ["Bananas are yellow."]])
def test_a_refusal_is_flagged_and_its_coverage_is_judged(evaluate, row, sources):
    refusal = row(sources=sources, response="I could not find this in the documents.")
    result = evaluate(refusal, row(id="b", response="Green tea is a drink."))
    first, second = result["details"]
    assert (first["refusal"], second["refusal"]) == (True, False)
    assert first["reasons"]["groundedness"] == first["reasons"]["response_precision"] == "no_claims"
    assert first["response_query_coverage"] == 0.0
    assert result["refusal_rate"] == 0.5
    assert result["counts"]["rows_with_judge_failures"] == 0


def test_an_empty_list_of_claims_is_asked_for_once_more_and_then_means_none(evaluate, judges, row):
    chinese = row(query="茶热吗?", sources=["茶是热的。"], response="茶是热的。很好喝。")
    result = evaluate(chinese, judge={"units": {chinese["response"]: []}}, metrics=["groundedness"])
    assert result["details"][0]["reasons"] == {"groundedness": "no_claims"}
    assert result["groundedness"] is None
    assert result["reasons"]["groundedness"] == "no_claims"
    assert [call.kind for call in judges[0].calls] == ["claims", "claims"]


def test_one_sentence_repeats_nothing(evaluate, judges, row):
    result = evaluate(row(response="Tea."), metrics=["response_self_distinctness"])
    assert result["response_self_distinctness"] == 1.0
    assert judges[0].calls == []


def test_no_rows_give_no_metric(evaluate):
    result = evaluate()
    assert result["groundedness"] is None
    assert result["reasons"]["groundedness"] == "no_rows"
    assert "incomplete" not in result
