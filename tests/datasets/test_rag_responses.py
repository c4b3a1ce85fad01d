"""Responses that a system gave in an earlier run, as the data of source support."""

import json

import pytest

from opencompass_ext.datasets import RAGDataset
from opencompass_ext.errors import ConfigError, DataError, PredictionsError

QUERIES = ("Why?", "How?", "Who?")
ROWS = [{"id": q, "query": q, "sources": [f"{q} So."]} for q in QUERIES]


@pytest.fixture
def load(write):
    """Return a function from rows and further keys to the data set."""

    def load(*rows, **arguments):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        return RAGDataset(path=write("rag.jsonl", lines), **arguments)

    return load


def test_responses_come_from_an_earlier_run(load, predict):
    rows = load(*ROWS, responses_from=predict("m1", ["a", "", "c"])).test
    assert rows["response"][:] == ["a", "", "c"]
    assert rows[0]["sources"] == [{"id": "1", "text": "Why? So."}]


def test_the_responses_of_the_data_and_what_people_said_of_them_give_way(load, predict):
    rows = [{**row, "response": "human", "grounded": 1, "topic": "t"} for row in ROWS]
    data = load(*rows, responses_from=predict("m1", "abc")).test
    assert data["response"][:] == ["a", "b", "c"]
    assert "grounded" not in data.column_names
    assert data["topic"][:] == ["t"] * 3


def test_sources_that_the_system_retrieved_itself_are_its_own(load, predict):
    retrieved = [{"id": "s", "text": "Retrieved."}]
    data = load(*ROWS, responses_from=predict("m1", "abc", sources=retrieved)).test
    assert data[2]["sources"] == retrieved
    assert data[2]["sources_text"] == "[s] Retrieved."


def test_only_the_rows_that_were_answered_are_read(load, predict):
    path = predict("m1", ["b", "c"], prompts=["Q: How?", "Q: Who?"])
    data = load(*ROWS, responses_from=path, responses_range="[1:]")
    assert data.test["id"][:] == ["How?", "Who?"]
    assert data.where(0).endswith("rag.jsonl, line 2")


@pytest.mark.parametrize(
    ("answers", "options", "words"),
    [
        (["a", "b"], {}, ["2 answers", "3 questions", "responses_range"]),
        (["a", None, "c"], {}, ["row 1", "'prediction'", "None"]),
        ("abc", {"prompts": ["Q: Why?", "Q: Who?", "Q: How?"]}, ["row 1", "question 2"]),
    ],
)
def test_predictions_that_are_not_the_responses_are_refused(
    load, predict, message, answers, options, words
):
    path = predict("m1", answers, **options)
    text = message(DataError, load, *ROWS, responses_from=path)
    for word in [path, *words]:
        assert word in text


def test_prompts_that_do_not_hold_the_queries_can_be_taken_on_trust(load, predict):
    path = predict("m1", "abc", prompts=["1", "2", "3"])
    data = load(*ROWS, responses_from={"path": path, "check_prompts": False})
    assert data.test["response"][:] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ["responses_from: expected the path of a predictions file", "[]"]),
        ({"path": "a.json", "model": "x"}, ["no key 'model' beside a path"]),
    ],
)
def test_responses_from_must_name_a_file(load, message, given, words):
    text = message(ConfigError, load, *ROWS, responses_from=given)
    assert all(word in text for word in words)


def test_a_missing_predictions_file_is_named(load, message, tmp_path):
    path = str(tmp_path / "none" / "qa.json")
    assert path in message(PredictionsError, load, *ROWS, responses_from=path)


def test_a_range_of_responses_needs_responses(load, message):
    assert "test_range" in message(ConfigError, load, *ROWS, responses_range="[:1]")
    text = message(ConfigError, load, *ROWS, responses_from="x.json", responses_range="[5:]")
    assert text.startswith("responses_range: ")
