"""Questions with their sources: what is read, and what is refused where."""

import json

import pytest

from opencompass_ext.datasets import RAGDataset
from opencompass_ext.datasets.rag_rows import is_blank
from opencompass_ext.errors import DataError

ROW = {"id": "a", "query": "What is tea?", "sources": ["Tea is a drink."]}


@pytest.fixture
def load(write):
    """Return a function from rows to the data set's test rows."""

    def load(*rows):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return RAGDataset(path=write("rag.jsonl", lines)).test.to_list()

    return load


def test_no_reference_and_no_response_is_needed(load):
    assert load(ROW) == [
        {
            "id": "a",
            "query": "What is tea?",
            "sources": [{"id": "1", "text": "Tea is a drink."}],
            "sources_text": "[1] Tea is a drink.",
        }
    ]


def test_sources_of_every_form_become_id_and_text(load):
    sources = [
        "plain",
        {"id": "doc", "text": "茶是饮料。", "score": 0.9},
        {"id": 7, "table": [["drink", "price"], ["tea", 3]]},
        {"json": {"tea": {"hot": True}}},
    ]
    (row,) = load({**ROW, "sources": sources})
    assert row["sources"] == [
        {"id": "1", "text": "plain"},
        {"id": "doc", "text": "茶是饮料。"},
        {"id": "7", "text": "- drink: tea; price: 3"},
        {"id": "4", "text": "- tea > hot: true"},
    ]


def test_chunks_of_one_document_get_ids_of_their_own(load):
    chunk = {"id": "doc", "text": "x"}
    (row,) = load({**ROW, "sources": [chunk, chunk, {"id": "doc#2", "text": "y"}, chunk]})
    assert [source["id"] for source in row["sources"]] == ["doc", "doc#3", "doc#2", "doc#4"]


@pytest.mark.parametrize("sources", [[], [""], ["  "]])
def test_empty_sources_are_sources_and_break_no_other_row(load, sources):
    rows = load({**ROW, "sources": sources}, {**ROW, "id": "b"})
    assert len(rows[0]["sources"]) == len(sources)
    assert rows[1]["sources_text"] == "[1] Tea is a drink."


def test_sources_may_be_left_to_the_systems(load):
    (row,) = load({"id": "a", "query": "What is tea?"})
    assert row["sources"] is None
    assert row["sources_text"] is None


def test_further_columns_and_number_ids_are_kept(load):
    (row,) = load({**ROW, "id": 3, "response": None, "topic": "drinks"})
    assert (row["id"], row["response"], row["topic"]) == ("3", "", "drinks")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"query": "q"}, "no column 'id': known names: query"),
        ({**ROW, "id": None}, "'id' must be text or a whole number, got None"),
        ({**ROW, "id": True}, "'id' must be text or a whole number, got True"),
        ({**ROW, "query": " "}, "'query' is blank"),
        ({"id": "b", "qury": "q"}, "no column 'query': did you mean 'qury'?"),
        ({**ROW, "query": 3}, "'query' must be text, got 3"),
        ({**ROW, "sources": "text"}, "'sources' must be a list, one entry per retrieved chunk"),
        ({**ROW, "sources": [3]}, "source 1 must be text, or {"),
        ({**ROW, "sources": ["x", {"id": "s"}]}, "source 2 must have exactly one of 'text', 'tab"),
        ({**ROW, "sources": [{"text": "x", "json": {}}]}, "source 1 must have exactly one of"),
        ({**ROW, "sources": [{"text": 5}]}, "source 1: 'text' must be text, got 5"),
        ({**ROW, "sources": [{"table": [["a"], [1, 2]]}]}, "source 1: row 1 of a table has 2 cell"),
        ({"id": "b", "query": "q", "contexts": ["x"]}, "the column 'contexts' is not known: name"),
        ({**ROW, "sources_text": "x"}, "the column 'sources_text' is made from 'sources': rename"),
        ({**ROW, "response": 3}, "'response' must be text, got 3"),
    ],
)
def test_a_wrong_row_is_refused_with_file_and_line(load, message, row, told):
    error = message(DataError, load, {**ROW, "id": "first"}, row)
    assert "rag.jsonl, line 2: " + told in error


def test_an_id_that_stands_twice_names_both_lines(load, message):
    error = message(DataError, load, ROW, {**ROW, "id": "b"}, ROW)
    assert "rag.jsonl, line 3: the id 'a' stands already at line 1" in error


@pytest.mark.parametrize(
    "source",
    ["", "\u200b", {"text": None}, {"table": []}, {"table": [["a"]]}, {"json": {}}, {"json": []}],
)
def test_an_empty_source_of_any_form_is_a_blank_one(load, source):
    (row,) = load({**ROW, "sources": [source]})
    assert is_blank(row["sources"][0]["text"])


def test_a_prompt_with_sources_that_only_the_systems_have_says_what_to_do(write, message):
    path = write("rag.jsonl", json.dumps({"id": "a", "query": "q"}))
    columns = {"input_columns": ["query", "sources_text"]}
    error = message(DataError, RAGDataset, path=path, reader_cfg=columns)
    assert "leave 'sources_text' out of input_columns when the systems under test bring" in error
    assert RAGDataset(path=path, reader_cfg={"input_columns": ["query"]}).test[0]["query"] == "q"
