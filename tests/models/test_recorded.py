"""A system replayed from its log through GenInferencer, and logs that do not fit the data."""

import json

import pytest

from opencompass_ext.datasets import RAGDataset
from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.inferencers import GenInferencer
from opencompass_ext.models import RecordedModel
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

QUESTIONS = [
    {"id": "a", "query": "What is tea?", "sources": ["Tea is a drink."]},
    {"id": "b", "query": "茶热吗?", "sources": ["茶是热的。"]},
]
LOG = [
    {"id": "b", "query": "茶热吗?", "response": "是的。", "sources": [{"id": "d", "text": "茶。"}]},
    {"id": "a", "response": "A drink."},
]


@pytest.fixture
def replay(write, tmp_path):
    """Return a function that runs a log on questions and returns the predictions."""

    def replay(log, questions=QUESTIONS, name="system.jsonl"):
        paths = [
            write(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            for file, rows in (("questions.jsonl", questions), (name, log))
        ]
        inferencer = GenInferencer(
            RecordedModel(path=str(paths[1])),
            max_out_len=1,
            output_json_filepath=str(tmp_path / "predictions"),
            output_json_filename=name,
        )
        return inferencer.inference(
            ZeroRetriever(RAGDataset(path=str(paths[0]))), prompt_template=PromptTemplate("{query}")
        )

    return replay


def test_answers_come_in_the_order_of_the_data_set_by_id(replay):
    predictions = replay([*LOG, {"id": "not asked", "response": "x"}])
    assert [row["prediction"] for row in predictions] == ["A drink.", "是的。"]


def test_a_system_brings_its_own_sources(replay):
    first, second = replay(LOG)
    assert "sources" not in first
    assert second["sources"] == [{"id": "d", "text": "茶。"}]


def test_a_response_that_is_null_means_that_there_was_none(replay):
    first, _ = replay([LOG[0], {"id": "a", "response": None}])
    assert first["prediction"] == ""


def test_a_changed_log_is_replayed_anew(replay):
    replay(LOG)
    changed = replay([LOG[0], {"id": "a", "response": "Leaves in water."}])
    assert changed[0]["prediction"] == "Leaves in water."


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (LOG[1:], "has no row for 1 of the 2 ids of the data set: 'b'; add them to the log"),
        ([*LOG, LOG[0]], "system.jsonl, line 3: the id 'b' stands already at line 1"),
        ([LOG[0], {"id": "a"}], "system.jsonl, line 2: no column 'response'"),
        ([LOG[0], {"id": "a", "response": 3}], "system.jsonl, line 2: 'response' must be text"),
        ([LOG[0], {**LOG[1], "sources": "x"}], "system.jsonl, line 2: 'sources' must be a list"),
        ([LOG[0], {**LOG[1], "query": "Why?"}], "line 2: the id 'a' belongs to the query 'Why?'"),
        ([LOG[0], {"response": "x"}], "system.jsonl, line 2: no column 'id'"),
    ],
)
def test_a_log_that_does_not_fit_is_refused_with_its_place(replay, log, told):
    with pytest.raises(DataError) as caught:
        replay(log)
    assert told in str(caught.value)


def test_many_missing_ids_are_counted_and_some_are_named(replay):
    questions = [{"id": n, "query": "q"} for n in range(9)]
    with pytest.raises(DataError, match=r"for 9 of the 9 ids .*'0', '1', '2', '3', '4' and 4 more"):
        replay(LOG, questions)


def test_without_a_log_the_data_set_itself_is_replayed(write, tmp_path):
    rows = [{**QUESTIONS[0], "response": "A drink."}, {**QUESTIONS[1], "response": None}]
    path = write("own.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def replay(path):
        inferencer = GenInferencer(
            RecordedModel(), max_out_len=1, output_json_filepath=str(tmp_path / "p")
        )
        data = ZeroRetriever(RAGDataset(path=str(path)))
        return inferencer.inference(data, prompt_template=PromptTemplate("{query}"))

    assert [row["prediction"] for row in replay(path)] == ["A drink.", ""]
    write("own.jsonl", json.dumps({**rows[0], "response": "Leaves."}))
    assert [row["prediction"] for row in replay(path)] == ["Leaves."]
    write("own.jsonl", json.dumps(QUESTIONS[0]))
    with pytest.raises(DataError, match="no column 'response' to replay: give RecordedModel"):
        replay(path)


def test_a_log_that_is_not_there_is_told_at_once(tmp_path):
    with pytest.raises(DataError, match="no data file"):
        RecordedModel(path=str(tmp_path / "none.jsonl"))


def test_a_log_scores_no_text(write):
    model = RecordedModel(path=str(write("log.jsonl", '{"id": "a", "response": "x"}')))
    with pytest.raises(ConfigError, match="replays a log and cannot score texts"):
        model.score_spans([])
    with pytest.raises(ConfigError, match="cannot count tokens"):
        model.get_token_len("x")
