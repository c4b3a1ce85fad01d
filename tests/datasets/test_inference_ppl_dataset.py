import json
from pathlib import Path

import pytest

from opencompass_ext.datasets import InferencePPLDataset
from opencompass_ext.datasets.paths import shipped_root
from opencompass_ext.errors import DataError

SHIPPED = sorted((shipped_root() / "data" / "inference_ppl").glob("*.jsonl"))
READER = {"input_columns": ["text", "label"], "output_column": None}


def lines(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_a_folder_and_a_name_are_one_file(write):
    path = write("d/x.jsonl", lines({"text": "abc", "label": [[0, 2, 1]]}))
    folder = str(Path(path).parent)
    for arguments in ({"path": folder, "name": "x"}, {"path": path}):
        assert InferencePPLDataset(reader_cfg=READER, **arguments).test.to_list() == [
            {"text": "abc", "label": [[0, 2, 1]]}
        ]


@pytest.mark.parametrize(
    "label", [[], [[0, 0, 1]], [[5, 5, 1]], [[0, 5, 1]], [[0, 3, 1], [1, 5, 1]], [[1, 2]]]
)
def test_spans_inside_the_text_are_taken_as_they_are(write, label):
    path = write("x.jsonl", lines({"text": "答案是😀a", "label": label}))
    assert InferencePPLDataset(path=path).test[0]["label"] == label


def test_an_empty_text_is_kept_so_that_rows_match_the_file(write):
    rows = [{"text": "a", "label": []}, {"text": "", "label": []}, {"text": "b", "label": [[0, 1]]}]
    path = write("x.jsonl", lines(*rows))
    assert InferencePPLDataset(path=path, reader_cfg=READER).test.to_list() == rows


def test_further_columns_are_kept(write):
    row = {"id": "r1", "text": "a", "label": [], "meta": {"grade": 3}}
    assert InferencePPLDataset(path=write("x.jsonl", lines(row))).test.to_list() == [row]


def test_samples_takes_the_first_rows(write):
    path = write("x.jsonl", lines(*({"text": str(i), "label": []} for i in range(5))))
    assert InferencePPLDataset(path=path, samples=2).test["text"][:] == ["0", "1"]
    assert len(InferencePPLDataset(path=path, samples=9).test) == 5


@pytest.mark.parametrize("samples", [0, -1, 1.5, True, "3"])
def test_samples_must_be_a_number_of_rows(write, message, samples):
    path = write("x.jsonl", lines({"text": "a", "label": []}))
    text = message(DataError, InferencePPLDataset, path=path, samples=samples)
    assert text == f"samples must be a number of rows above 0, got {samples!r}"
    assert message(DataError, InferencePPLDataset.count, path=path, samples=samples) == text


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"text": "abcde"}, "no column 'label'; the row has 'text'"),
        ({"label": []}, "no column 'text'; the row has 'label'"),
        ({"text": None, "label": []}, "'text' must be text, got None"),
        ({"text": 5, "label": []}, "'text' must be text, got 5"),
        ({"text": "abcde", "label": None}, "'label' must be a list of spans"),
        ({"text": "abcde", "label": "0-3"}, "'label' must be a list of spans"),
        ({"text": "abcde", "label": [0, 3, 1]}, "span 0: expected [start, end, 1]"),
        ({"text": "abcde", "label": [[0]]}, "span [0]: expected [start, end, 1]"),
        ({"text": "abcde", "label": [[0, 1, 1, 1]]}, "span [0, 1, 1, 1]: expected"),
        ({"text": "abcde", "label": [{"start": 0}]}, "span {'start': 0}: expected"),
        ({"text": "abcde", "label": [[0, 6, 1]]}, "span [0, 6, 1]: outside the text, which has 5"),
        ({"text": "abcde", "label": [[-1, 2, 1]]}, "span [-1, 2, 1]: outside the text"),
        ({"text": "", "label": [[0, 1, 1]]}, "span [0, 1, 1]: outside the text, which has 0"),
        ({"text": "😀", "label": [[0, 2, 1]]}, "span [0, 2, 1]: outside the text, which has 1"),
        ({"text": "abcde", "label": [[0, 1, 1], [3, 2, 1]]}, "span [3, 2, 1]: start 3 lies behind"),
        ({"text": "abcde", "label": [[0, 2.0, 1]]}, "span [0, 2.0, 1]: expected whole numbers"),
        ({"text": "abcde", "label": [["0", 2, 1]]}, "span ['0', 2, 1]: expected whole numbers"),
        ({"text": "abcde", "label": [[False, True, 1]]}, "span [False, True, 1]: expected whole"),
        ({"text": "abcde", "label": [[0, 2, True]]}, "span [0, 2, True]: expected whole"),
        ({"text": "abcde", "label": [[None, 2, 1]]}, "span [None, 2, 1]: expected whole numbers"),
        ({"text": "abcde", "label": [[0, 2, 0]]}, "span [0, 2, 0]: the third item must be 1"),
    ],
)
def test_a_bad_row_names_file_line_and_span(write, message, row, says):
    path = write("x.jsonl", "\n" + lines({"text": "ok", "label": [[0, 1, 1]]}, row))
    text = message(DataError, InferencePPLDataset, path=path)
    assert text.startswith(f"{path}, line 3: {says}")


def test_a_bad_row_beyond_the_samples_is_an_error_too(write, message):
    path = write("x.jsonl", lines({"text": "ok", "label": []}, {"text": "ok"}))
    text = message(DataError, InferencePPLDataset, path=path, samples=1)
    assert "line 2" in text


def test_a_missing_value_of_a_further_column_names_the_line(write, message):
    path = write("x.jsonl", lines({"text": "a", "label": [], "q": "x"}, {"text": "a", "label": []}))
    reader = {"input_columns": ["text", "q"]}
    text = message(DataError, InferencePPLDataset, path=path, reader_cfg=reader)
    assert text.startswith(f"{path}, line 2: no value in column 'q'")


def test_a_missing_file_offers_the_near_name(message):
    arguments = {"path": "data/inference_ppl", "name": "en_gsm8k_answers"}
    text = message(DataError, InferencePPLDataset, **arguments)
    assert "did you mean 'en_gsm8k_answer.jsonl'" in text


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_file_labels_what_its_name_says(path):
    rows = InferencePPLDataset(path=str(path), reader_cfg=READER).test
    before = {
        "en_gsm8k_reasoning": "\nAnswer: ",
        "en_gsm8k_answer": "\nThe answer is ",
        "zh_cmath_answer": "\n答案：",
        "zh_gaokao_reasoning": "\n解析：",
        "zh_gaokao_answer": "\n答案：",
    }[path.stem]
    assert len(rows) >= 100
    for row in rows:
        ((start, end, _),) = row["label"]
        assert row["text"][:start].endswith(before)
        assert row["text"][start:end].strip()
        if path.stem.endswith("answer"):
            assert row["text"][end:] in ("", ".")
