import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest

from opencompass_ext.datasets import JsonlDataset
from opencompass_ext.errors import ConfigError, DataError

ROWS = [{"q": "1+1?", "a": "2", "n": 1}, {"q": "答?", "a": "三", "n": None}]


def lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def as_csv(rows, delimiter):
    body = [[str(row[c] if row[c] is not None else "") for c in ("q", "a", "n")] for row in rows]
    return "\n".join(delimiter.join(fields) for fields in [["q", "a", "n"], *body]) + "\n"


@pytest.mark.parametrize("extension", ["jsonl", "json", "csv", "tsv", "parquet"])
def test_every_format_gives_the_same_text_columns(write, tmp_path, extension):
    content = {
        "jsonl": lines(ROWS),
        "json": json.dumps(ROWS),
        "csv": as_csv(ROWS, ","),
        "tsv": as_csv(ROWS, "\t"),
    }
    path = str(tmp_path / "rows.parquet")
    if extension == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        path = write(f"rows.{extension}", content[extension])
    test = JsonlDataset(path=path, reader_cfg={"input_columns": ["q", "a"]}).test
    assert test["q"][:] == ["1+1?", "答?"]
    assert test["a"][:] == ["2", "三"]


def test_rows_come_in_file_order_with_every_column(write):
    data = JsonlDataset(path=write("rows.jsonl", lines(ROWS)))
    assert data.test.to_list() == ROWS
    assert data.train.to_list() == ROWS


def test_dates_and_digits_in_text_stay_text(write):
    row = {"when": "2024-01-02T03:04:05", "id": "007"}
    assert JsonlDataset(path=write("a.jsonl", lines([row]))).test[0] == row


def test_a_column_that_some_rows_lack_is_null_there(write):
    path = write("a.jsonl", lines([{"q": "x"}, {"q": "y", "extra": 1}]))
    assert JsonlDataset(path=path, reader_cfg={"input_columns": "q"}).test["extra"][:] == [None, 1]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([[1], {"a": 1}], "column 'c' mixes lists ({0}, line 1) and objects ({0}, line 2)"),
        ([None, 2, [2]], "column 'c' mixes numbers ({0}, line 2) and lists ({0}, line 3)"),
        (["a", {"a": 1}], "column 'c' mixes text ({0}, line 1) and objects ({0}, line 2)"),
        ([[1], [2], ["x"], [3]], "{0}, line 3: column 'c' holds ['x'], which does not fit"),
        ([1, 2, 2**70], "{0}, line 3: column 'c' holds 1180591620717411303424, which does not"),
        (["\ud83d", "a"], "{0}, line 1: column 'c' holds half of a surrogate pair, '\\ud83d'"),
        ([1, "a\udc00b"], "{0}, line 2: column 'c' holds half of a surrogate pair, '\\udc00'"),
        ([["a"], ["\ud83d"]], "{0}, line 2: column 'c' holds half of a surrogate pair"),
    ],
)
def test_mixed_types_name_column_and_rows(write, message, values, says):
    path = write("a.jsonl", "".join(json.dumps({"c": v}) + "\n" for v in values))
    assert says.format(path) in message(DataError, JsonlDataset, path=path)


@pytest.mark.parametrize(
    ("values", "texts", "says"),
    [
        ([5, "x"], ["5", "x"], "mixes numbers ({0}, line 1) and text ({0}, line 2)"),
        (["a", "b", 2.5], ["a", "b", "2.5"], "mixes text ({0}, line 1) and numbers ({0}, line 3)"),
        ([1, True], ["1", "true"], "mixes numbers ({0}, line 1) and true/false ({0}, line 2)"),
        ([None, 2**70, "答"], [None, str(2**70), "答"], "mixes numbers ({0}, line 2) and text"),
    ],
)
def test_a_mix_of_numbers_and_text_is_text_and_said_once(write, caplog, values, texts, says):
    path = write("a.jsonl", lines({"q": "x", "c": v} for v in values))
    data = JsonlDataset(path=path, reader_cfg={"input_columns": ["q"]})
    assert data.test["c"][:] == texts
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert says.format(path) in record.message
    assert record.message.endswith(": all its values are read as text")


def test_whole_numbers_and_fractions_are_no_mix(write):
    path = write("a.jsonl", lines([{"c": 1}, {"c": 2.5}]))
    assert JsonlDataset(path=path).test["c"][:] == [1.0, 2.5]


def test_objects_without_any_column_are_refused(write, message):
    path = write("a.jsonl", "{}\n{}\n")
    assert f"{path}, line 1: the object is empty" in message(DataError, JsonlDataset, path=path)


def test_a_missing_value_in_an_input_column_names_the_line(write, message):
    path = write("a.jsonl", "\n" + lines([{"q": "x", "a": "1"}, {"q": "y"}]))
    text = message(DataError, JsonlDataset, path=path, reader_cfg={"input_columns": ["q", "a"]})
    assert text.startswith(f"{path}, line 3: no value in column 'a'")


def test_a_missing_value_names_the_line_also_after_a_range(write, message):
    rows = [{"q": str(i), "a": "1"} for i in range(9)] + [{"q": "bad"}]
    path = write("a.jsonl", lines(rows))
    reader = {"input_columns": ["a"], "test_range": "[::-3]"}
    text = message(DataError, JsonlDataset, path=path, reader_cfg=reader)
    assert text.startswith(f"{path}, line 10:")
    good = JsonlDataset(path=path, reader_cfg={**reader, "test_range": "[:9]"})
    assert len(good.test) == 9


def test_a_missing_value_in_a_parquet_file_names_the_row(tmp_path, message):
    path = str(tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pa.table({"q": ["x", None]}), path)
    text = message(DataError, JsonlDataset, path=path, reader_cfg={"input_columns": ["q"]})
    assert text.startswith(f"{path}, row 2: no value in column 'q'")


def test_what_is_no_parquet_file_is_an_error(write, message):
    path = write("a.parquet", "text")
    assert f"cannot read {path} as Parquet" in message(DataError, JsonlDataset, path=path)


def test_an_unknown_key_is_answered_with_the_near_one(write, message):
    path = write("a.jsonl", lines(ROWS))
    text = message(ConfigError, JsonlDataset, path=path, nme="x")
    assert text == "JsonlDataset has no key 'nme': did you mean 'name'?"
    assert message(ConfigError, JsonlDataset) == "JsonlDataset needs the key 'path'"


def test_a_hundred_thousand_rows_are_read_in_order(write):
    text = "".join(f'{{"id": {i}, "text": "row {i}", "xs": [{i}, 1]}}\n' for i in range(100_000))
    test = JsonlDataset(path=write("big.jsonl", text), reader_cfg={"test_range": "[99998:]"}).test
    assert test["text"][:] == ["row 99998", "row 99999"]


OFFLINE = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("network used")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from opencompass_ext.datasets import InferencePPLDataset, JsonlDataset
assert JsonlDataset(path=sys.argv[1]).test[0]["q"] == "1+1?"
assert len(InferencePPLDataset(path="data/inference_ppl", name="zh_cmath_answer").test) == 150
"""


def test_local_files_need_no_network_and_leave_no_cache(write, tmp_path):
    path = write("rows.jsonl", lines(ROWS))
    cache = tmp_path / "cache"
    env = {**os.environ, "HF_HOME": str(cache)}
    ran = subprocess.run(
        [sys.executable, "-c", OFFLINE, path], env=env, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert [f for f in cache.rglob("*") if f.is_file()] == []
