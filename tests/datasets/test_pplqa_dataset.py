import json

import pytest

from opencompass_ext.datasets import PPLqaDataset
from opencompass_ext.errors import ConfigError, DataError, PredictionsError


def line(**changes):
    row = {
        "id": "q1",
        "question": "Why?",
        "answers": [{"model": "x", "answer": "So."}, {"model": "y", "answer": "Because."}],
    }
    row.update(changes)
    return {name: value for name, value in row.items() if value is not ...}


@pytest.fixture
def file_of(write):
    def file_of(*rows, name="qa.jsonl"):
        return write(name, "".join(json.dumps(row) + "\n" for row in rows))

    return file_of


@pytest.fixture
def load(file_of):
    def load(*rows, **options):
        return PPLqaDataset(path=file_of(*rows), **options)

    return load


def ids(data):
    return [(row["id"], row["model"]) for row in data.test]


def test_every_answer_is_a_row(load):
    votes = [
        {"a": "x", "b": "y", "winner": "b", "judge": "ann"},
        {"a": "y", "b": "x", "winner": "tie"},
    ]
    data = load(line(category="math", preferences=votes, ranks={"y": 1, "x": 2.5}), line(id=7))
    assert ids(data) == [("q1", "x"), ("q1", "y"), ("7", "x"), ("7", "y")]
    assert data.test[1] == {
        "id": "q1",
        "question": "Why?",
        "model": "y",
        "answer": "Because.",
        "category": "math",
        "preferences": [votes[0], {**votes[1], "judge": None}],
        "rank": 1.0,
    }
    assert data.test[0]["preferences"] == data.test[1]["preferences"]
    assert (data.test[2]["rank"], data.test[2]["category"], data.test[2]["preferences"]) == (
        None,
        None,
        [],
    )


def test_better_and_worse_become_a_vote_between_answers_in_the_order_of_the_row(load):
    pairs = [{"better": "y", "worse": "x"}, {"better": "x", "worse": "y"}]
    votes = load(line(human_preference=pairs)).test[0]["preferences"]
    assert [(v["a"], v["b"], v["winner"]) for v in votes] == [("x", "y", "b"), ("x", "y", "a")]


def test_a_line_may_hold_one_answer_and_its_sources(load):
    row = {"id": "r", "query": "Why?", "response": "So.", "model": "rag", "grounded": 1}
    data = load({**row, "sources": ["s1", {"id": "k", "text": "s2"}]}, {**row, "id": "s"})
    assert data.test[0] == {
        "id": "r",
        "question": "Why?",
        "model": "rag",
        "answer": "So.",
        "category": None,
        "preferences": [],
        "rank": None,
        "sources": ["s1", "s2"],
        "grounded": 1,
    }
    assert data.test[1]["sources"] is None


def test_rows_of_retrieval_data_are_read(load):
    data = load({"id": "r", "query": "Why?", "response": "So.", "system": "t5", "label": 0})
    row = data.test[0]
    assert [row[k] for k in ("question", "answer", "model", "grounded")] == ["Why?", "So.", "t5", 0]


def test_a_single_answer_without_a_name_is_of_the_system(load):
    assert ids(load({"id": "r", "question": "Why?", "answer": "So."})) == [("r", "system")]


def test_blank_answers_are_kept(load):
    answers = [{"model": "x", "answer": ""}, {"model": "y", "answer": " \n"}]
    assert load(line(answers=answers)).test["answer"][:] == ["", " \n"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([line(), line()], ["line 2", "the id 'q1' is taken by line 1"]),
        ([line(id=1), line(id="1")], ["line 2", "the id '1'"]),
        ([line(id=...)], ["line 1", "'id' must be", "got nothing"]),
        ([line(id=True)], ["line 1", "'id' must be", "True"]),
        ([line(question=" ")], ["line 1", "'question'", "not blank", "' '"]),
        ([line(question=...)], ["line 1", "'question'", "got nothing"]),
        ([line(answers=...)], ["line 1", "'answers' must be a list", "answers_from"]),
        ([line(answers=[])], ["line 1", "at least one"]),
        ([line(answers={"x": "So."})], ["line 1", "'answers' must be a list"]),
        ([line(answers=["So."])], ["line 1", "answers, item 1", "an object"]),
        ([line(answers=[{"model": "x"}])], ["item 1", "'answer' must be text, got nothing"]),
        ([line(answers=[{"model": "x", "answer": 5}])], ["item 1", "must be text, got 5"]),
        ([line(answers=[{"answer": "So."}])], ["item 1", "'model' must be the name"]),
        ([line(answers=[{"model": "x", "answer": "a"}] * 2)], ["item 2", "'x' has two answers"]),
        ([line(answer="So.")], ["line 1", "both 'answers' and 'answer'"]),
        ([line(answers=..., answer="So.", grounded=2)], ["'grounded' must be 1", "2"]),
        ([line(category=3)], ["line 1", "'category' must be text, got 3"]),
        ([line(sources="s")], ["line 1", "'sources' must be a list"]),
        ([line(preferences={})], ["line 1", "'preferences' must be a list", '"winner"']),
        (
            [line(preferences=[{"a": "x", "b": "y", "winner": "A"}])],
            ["item 1", "'a', 'b' or 'tie'"],
        ),
        ([line(preferences=[{"a": "x", "b": "y"}])], ["item 1", "'winner'", "got nothing"]),
        ([line(preferences=[{"a": "x", "b": "z", "winner": "a"}])], ["'b'", "'x', 'y'", "'z'"]),
        ([line(preferences=[{"a": "x", "b": "x", "winner": "a"}])], ["the same system"]),
        ([line(preferences=[{"a": "x", "b": "y", "winner": "a", "judge": 1}])], ["'judge'", "1"]),
        ([line(human_preference=[{"better": "x", "worse": "gpt"}])], ["'worse'", "'gpt'"]),
        ([line(human_preference={"winner": 0})], ["'human_preference'", '"better"']),
        (
            [
                line(
                    human_preference=[{"better": "x", "worse": "y"}],
                    preferences=[{"a": "x", "b": "y", "winner": "a"}],
                )
            ],
            ["both 'preferences' and"],
        ),
        ([line(ranks=[1, 2])], ["'ranks' must be an object"]),
        ([line(ranks={"x": True})], ["'ranks' must be an object"]),
        ([line(ranks={"x": 1, "z": 2})], ["ranks: 'z' has no answer"]),
        ([line(ranks={"x": 10**400})], ["'ranks' must be an object"]),
        ([line(id="  ")], ["'id' must be a text that is not blank"]),
        ([line(answers=[{"model": "x ", "answer": "a"}])], ["'x '", "ends with a blank"]),
        ([line(question="a\ud800")], ["line 1", "surrogate"]),
    ],
)
def test_mistakes_are_named(load, message, rows, words):
    text = message(DataError, load, *rows)
    for word in ["qa.jsonl", *words]:
        assert word in text


def test_ranges_and_limits_count_questions(load):
    rows = [line(id=f"q{i}", answers=line()["answers"][: 1 + i % 2]) for i in range(6)]
    assert ids(load(*rows, limit=2)) == [("q0", "x"), ("q1", "x"), ("q1", "y")]
    by_range = load(*rows, reader_cfg={"test_range": "[3:5]"})
    assert ids(by_range) == [("q3", "x"), ("q3", "y"), ("q4", "x")]
    drawn = load(*rows, reader_cfg={"test_range": 3}, limit=2)
    assert len({name for name, _ in ids(drawn)}) == 2
    assert all(len(row["answer"]) for row in drawn.test)


def test_the_place_of_a_row_is_its_line_and_system(load):
    assert load(line(), line(id="q2")).where(3).endswith("qa.jsonl, line 2, answer of 'y'")


QUESTIONS = [line(id=q, question=q, answers=...) for q in ("Why?", "How?", "Who?")]


def test_answers_come_from_earlier_runs(load, predict):
    first = predict("m1", ["a", "b", "c"])
    second = predict("m2", ["d", "", "f"])
    data = load(*QUESTIONS, answers_from=[first, {"path": second, "model": "big"}])
    assert ids(data) == [(q, m) for q in ("Why?", "How?", "Who?") for m in ("m1", "big")]
    assert data.test["answer"][:] == ["a", "d", "b", "", "c", "f"]


def test_answers_of_the_file_and_of_runs_stand_together_and_can_be_preferred(load, predict):
    human = [{"model": "human", "answer": "So."}]
    votes = [{"a": "m1", "b": "human", "winner": "b"}]
    row = line(question="Why?", answers=human, preferences=votes)
    data = load(row, answers_from=[predict("m1", ["a"])])
    assert ids(data) == [("q1", "human"), ("q1", "m1")]


def test_latest_stands_for_the_latest_run(load, predict, tmp_path):
    predict("m1", ["old"] * 3)
    predict("m1", ["new"] * 3, run="run/20260102_000000")
    path = tmp_path / "run" / "latest" / "predictions" / "m1" / "qa.json"
    assert load(*QUESTIONS, answers_from=[str(path)]).test["answer"][:] == ["new"] * 3


def test_without_a_run_none_is_the_latest(load, message, tmp_path):
    path = str(tmp_path / "run" / "latest" / "predictions" / "m1" / "qa.json")
    text = message(DataError, load, *QUESTIONS, answers_from=[path])
    assert str(tmp_path / "run") in text
    assert "generate the answers first" in text


def test_only_the_questions_that_were_answered_are_read(load, predict):
    path = predict("m1", ["b", "c"], prompts=["Q: How?", "Q: Who?"])
    data = load(*QUESTIONS, answers_from=[path], answers_range="[1:]")
    assert ids(data) == [("How?", "m1"), ("Who?", "m1")]


def test_prompts_in_the_form_of_a_dialogue_are_read(load, predict):
    prompts = [[{"role": "HUMAN", "prompt": q}] for q in ("Why?", "How?", "Who?")]
    assert len(load(*QUESTIONS, answers_from=[predict("m1", "abc", prompts=prompts)]).test) == 3


def test_answers_to_other_questions_are_refused_whatever_their_number(load, predict, message):
    prompts = ["Q: alpha", "Q: beta", "Q: gamma"]
    path = predict("m1", "abc", prompts=prompts)
    text = message(DataError, load, *QUESTIONS, answers_from=[path])
    assert "row 0: its prompt does not hold question 0" in text
    unchecked = {"path": path, "check_prompts": False}
    assert len(load(*QUESTIONS, answers_from=[unchecked]).test) == 3


def test_a_template_may_change_the_blanks_of_a_question(load, predict):
    rows = [line(id="q", question="Why\n  so?", answers=...)]
    assert len(load(*rows, answers_from=[predict("m1", "a", prompts=["Q: Why so? A:"])]).test) == 1


def test_a_folder_is_no_predictions_file(load, message, tmp_path):
    text = message(PredictionsError, load, *QUESTIONS, answers_from=[str(tmp_path)])
    assert "a folder, not a predictions file" in text


def test_advice_about_foreign_answers_does_not_destroy_them(load, message, write):
    path = write("run/predictions/m1/qa.json", "[]")
    text = message(PredictionsError, load, *QUESTIONS, answers_from=[path])
    assert "remove" not in text
    assert "give another file" in text


def test_a_key_that_looks_misspelt_is_told_once(load, caplog):
    load(line(prefrences=[]), line(id="q2", prefrences=[], question_id=3))
    assert caplog.text.count("the key 'prefrences' is not read: is it misspelt?") == 1
    assert "question_id" not in caplog.text


def test_answers_that_were_cut_are_counted(load, predict, caplog):
    load(*QUESTIONS, answers_from=[predict("m1", "abc", finish_reason="length")])
    assert "3 of 3 answers were cut at max_out_len" in caplog.text


@pytest.mark.parametrize(
    ("answers", "options", "words"),
    [
        (["a", "b"], {}, ["2 answers", "3 questions", "answers_range"]),
        (["a", None, "c"], {}, ["row 1", "'prediction'", "None"]),
        (["a", ["b"], "c"], {}, ["row 1", "'prediction'", "['b']"]),
        (
            "abc",
            {"prompts": ["Q: Why?", "Q: Who?", "Q: How?"]},
            ["row 1", "question 2", "same order"],
        ),
    ],
)
def test_predictions_that_are_not_the_answers_are_refused(
    load, predict, message, answers, options, words
):
    path = predict("m1", answers, **options)
    text = message(DataError, load, *QUESTIONS, answers_from=[path])
    for word in [path, *words]:
        assert word in text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("a.json", ["must be a list", "'a.json'"]),
        ([], ["at least one"]),
        ([3], ["dict(path=..., model=..., check_prompts=...)", "3"]),
        ([{"model": "x"}], ["dict(path=..., model=..., check_prompts=...)"]),
        ([{"path": "a.json", "mdel": "x"}], ["'mdel'", "did you mean 'model'"]),
        ([{"path": "a.json", "model": ""}], ["name of a system"]),
    ],
)
def test_answers_from_must_name_files(load, message, given, words):
    text = message(ConfigError, load, *QUESTIONS, answers_from=given)
    assert all(word in text for word in words)


def test_two_runs_of_one_system_are_told_apart(load, predict, message):
    paths = [predict("m1", "abc"), predict("m1", "abc", run="other/20260101_000000")]
    assert "'m1' twice" in message(ConfigError, load, *QUESTIONS, answers_from=paths)
    named = [paths[0], {"path": paths[1], "model": "m1-later"}]
    assert len(load(*QUESTIONS, answers_from=named).test) == 6


def test_a_system_has_one_answer_in_all(load, predict, message):
    row = line(question="Why?", answers=[{"model": "m1", "answer": "So."}])
    text = message(DataError, load, row, answers_from=[predict("m1", "a")])
    assert "'m1' has an answer in the file and another in answers_from" in text


def test_a_missing_predictions_file_is_named(load, message, tmp_path):
    path = str(tmp_path / "none" / "qa.json")
    assert path in message(PredictionsError, load, *QUESTIONS, answers_from=[path])


def test_a_range_of_answers_needs_answers(load, message):
    assert "test_range" in message(ConfigError, load, line(), answers_range="[:1]")
    text = message(ConfigError, load, line(), answers_from=["x.json"], answers_range="[5:]")
    assert text.startswith("answers_range: ")
