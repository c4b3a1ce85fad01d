"""Better/worse pairs: two rows a pair, what is shared, and what is refused."""

import json

import pytest

from opencompass_ext.datasets import RAGPairsDataset
from opencompass_ext.errors import DataError
from opencompass_ext.metrics.thelma import METRICS

PAIR = {
    "id": "p",
    "aspect": "groundedness",
    "query": "What is tea?",
    "sources": ["Tea is a drink."],
    "better": {"response": "A drink."},
    "worse": {"response": "A stone."},
}


@pytest.fixture
def load(write):
    """Return a function from pairs to the data set's test rows."""

    def load(*pairs, **keys):
        lines = "".join(json.dumps(pair) + "\n" for pair in pairs)
        return RAGPairsDataset(path=write("pairs.jsonl", lines), **keys).test.to_list()

    return load


def test_a_pair_is_two_rows_that_share_what_stands_beside_the_sides(load):
    better, worse = load(PAIR)
    assert (better["id"], worse["id"]) == ("p/better", "p/worse")
    assert (better["response"], worse["response"]) == ("A drink.", "A stone.")
    assert better["sources"] == worse["sources"] == [{"id": "1", "text": "Tea is a drink."}]
    assert {row["pair"] for row in (better, worse)} == {"p"}


def test_ranges_and_limits_count_pairs(load):
    pairs = [{**PAIR, "id": name} for name in "abcd"]
    rows = load(*pairs, limit=1, reader_cfg={"test_range": "[1:]"})
    assert [row["id"] for row in rows] == ["b/better", "b/worse"]


def test_a_row_is_where_its_pair_is(write):
    lines = "".join(json.dumps({**PAIR, "id": name}) + "\n\n" for name in "ab")
    data = RAGPairsDataset(path=write("pairs.jsonl", lines))
    assert data.where(1).endswith("pairs.jsonl, line 1")
    assert data.where(2).endswith("pairs.jsonl, line 3")


def test_sides_may_differ_in_sources(load):
    sides = {"better": {"sources": ["a"]}, "worse": {"sources": ["a", "b"]}}
    better, worse = load({**PAIR, **sides, "response": "r"})
    assert (len(better["sources"]), len(worse["sources"])) == (1, 2)
    assert better["response"] == worse["response"] == "r"


def test_pairs_of_one_aspect_can_be_chosen(load):
    other = {**PAIR, "id": "o", "aspect": "other"}
    assert [row["pair"] for row in load(PAIR, other, aspect="other")] == ["o", "o"]
    with pytest.raises(DataError, match="no pair of the aspect 'x'; there are groundedness, other"):
        load(PAIR, other, aspect="x")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"better": "A drink."}, "'better' must be an object with 'response', 'sources' or both"),
        ({"worse": {}}, "no column 'response'"),
        ({"sources": None}, "no 'sources', neither in 'better' nor beside it"),
        ({"query": ""}, "'query' is blank"),
    ],
)
def test_a_wrong_pair_is_refused_with_its_place(load, message, change, told):
    error = message(DataError, load, PAIR, {**PAIR, "id": "q", **change})
    assert "pairs.jsonl, line 2: " + told in error


@pytest.mark.parametrize("language", ["en", "zh"])
def test_shipped_pairs_have_some_for_every_metric(language):
    rows = RAGPairsDataset(path="data/rag_pairs", name=language).test
    assert set(rows["aspect"]) == set(METRICS)
