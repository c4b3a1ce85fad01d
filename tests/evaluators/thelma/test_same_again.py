"""The same rows give the same results: alone or in company, in any order, from the record."""

import json

import pytest

from opencompass_ext.evaluators.thelma import evaluator as module
from opencompass_ext.writing import to_json


@pytest.fixture
def rows(row):
    names = ("green", "black", "white", "red", "old")
    return [
        row(id=n, query=f"What is {n} tea?", response=f"{n.title()} tea is a drink. It is {n}.")
        for n in names
    ]


def test_details_stand_in_the_order_of_the_rows_with_their_ids(evaluate, rows):
    assert [d["id"] for d in evaluate(*rows)["details"]] == [row["id"] for row in rows]


def test_a_row_scores_alike_alone_first_and_last(evaluate, rows):
    (alone,) = evaluate(rows[2])["details"]
    others = [rows[0], rows[4]]
    assert evaluate(rows[2], *others)["details"][0] == alone
    assert evaluate(*others, rows[2])["details"][2] == alone


def test_chunks_change_nothing(evaluate, rows, monkeypatch):
    whole = evaluate(*rows)
    monkeypatch.setattr(module, "ROWS_PER_CONNECTION", 2)
    in_chunks = evaluate(*rows)
    assert in_chunks == whole


def test_rows_with_identical_texts_keep_their_ids_and_are_asked_once(evaluate, judges, row):
    twins = [row(id=n, response="Green tea is a drink.") for n in ("x", "y")]
    first, second = evaluate(*twins)["details"]
    assert {**first, "id": "y"} == second
    calls = [json.dumps(call.messages) for call in judges[0].calls]
    assert len(calls) == len(set(calls))


def test_scores_are_rebuilt_from_the_record_without_a_call(evaluate, judges, rows, tmp_path):
    options = {"transcript": tmp_path / "judging" / "t.jsonl"}
    before = evaluate(*rows, **options)
    after = evaluate(*rows, **options)
    assert judges[0].calls
    assert judges[1].calls == []
    assert {**after, "usage": None} == {**before, "usage": None}
    assert all(set(of_kind) == {"used_for", "transcript"} for of_kind in after["usage"].values())


def test_a_cache_serves_another_run(evaluate, judges, rows, tmp_path):
    options = {"cache": str(tmp_path / "cache.sqlite")}
    evaluate(*rows, transcript=tmp_path / "1.jsonl", **options)
    usage = evaluate(*rows, transcript=tmp_path / "2.jsonl", **options)["usage"]
    assert judges[1].calls == []
    assert usage["supported"]["cache"]["calls"] == len(rows)


def test_results_are_strict_json_with_readable_characters(evaluate, row):
    result = evaluate(row(query="茶热吗?", sources=["茶是热的。"], response="茶是热的。"))
    text = to_json(result).decode()
    assert json.loads(text) == result
    assert "茶是热的。" in text


def test_the_result_says_how_it_was_judged(evaluate, rows):
    judging = evaluate(*rows, lang="zh", judge={"lang": "zh"}, units_per_call=3)["judging"]
    assert judging["judge"]["type"] == "ScriptedJudge"
    assert (judging["lang"], judging["units_per_call"]) == ("zh", 3)
    assert set(judging["prompt_versions"]) >= {"claims", "essential", "supported"}
