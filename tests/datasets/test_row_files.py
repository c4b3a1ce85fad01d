import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.datasets.row_files import ROW_READERS, read_rows
from opencompass_ext.errors import DataError

GOOD = '{"text": "a"}\n'


def read(path):
    from pathlib import Path

    return read_rows(Path(path))


def test_jsonl_rows_keep_their_line_numbers_over_blank_lines(write):
    path = write("a.jsonl", '\n{"n": 1}\n   \n\n{"n": 2}\r\n{"n": 3}')
    file = read(path)
    assert file.rows == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [file.where(i) for i in range(3)] == [f"{path}, line {n}" for n in (2, 5, 6)]


def test_a_byte_order_mark_is_no_part_of_the_data(write):
    assert read(write("a.jsonl", b"\xef\xbb\xbf" + GOOD.encode())).rows == [{"text": "a"}]
    assert read(write("a.csv", b"\xef\xbb\xbftext\na\n")).rows == [{"text": "a"}]


def test_line_separators_inside_a_json_string_do_not_end_the_line(write):
    text = "a\u2028b\u0085c\u000bd"
    assert read(write("a.jsonl", json.dumps({"text": text}, ensure_ascii=False))).rows == [
        {"text": text}
    ]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.text(), JSON_VALUES, max_size=4), min_size=1, max_size=5))
def test_jsonl_and_json_give_back_what_was_dumped(rows):
    from pathlib import Path

    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    whole = json.dumps(rows, ensure_ascii=False, indent=1)
    encode = {"errors": "surrogatepass"}
    if any("\ud800" <= c <= "\udfff" for c in lines):
        lines, whole = "".join(json.dumps(row) + "\n" for row in rows), json.dumps(rows)
    for extension, text in ((".jsonl", lines), (".json", whole), (".json", lines)):
        reader = ROW_READERS[extension]
        assert reader(Path("x"), io.BytesIO(text.encode(**encode))).rows == rows


@pytest.mark.parametrize(
    ("content", "place", "says"),
    [
        (GOOD + '{"text": \n', "line 2", "broken JSON"),
        (GOOD + '\n{"text": "a"} x\n', "line 3, column 15", "broken JSON"),
        (GOOD + "[1, 2]\n", "line 2", "expected a JSON object"),
        (GOOD + '"text"\n', "line 2", 'got text: "text"'),
        (GOOD + "null\n", "line 2", "got null"),
        (GOOD + '{"n": NaN}\n', "line 2", "NaN is not a JSON number"),
        (GOOD + '{"n": -Infinity}\n', "line 2", "-Infinity is not a JSON number"),
        (GOOD + '{"text": "a", "text": "b"}\n', "line 2", "the key 'text' stands twice"),
        (GOOD + '{"x": [{"a": 1, "b": 1, "a": 2}]}\n', "line 2", "the key 'a' stands twice"),
        (GOOD + '{"n": ' + "9" * 5000 + "}\n", "line 2", "broken JSON"),
        (GOOD + '{"n": ' + "[" * 100_000 + "\n", "line 2", "nested too deeply"),
        ("{\n" + '"text": "a"\n}\n', "line 1", "one whole object on each line"),
    ],
)
def test_a_bad_jsonl_line_is_named(write, message, content, place, says):
    path = write("a.jsonl", content)
    text = message(DataError, read, path)
    assert text.startswith(f"{path}, {place}")
    assert says in text


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json"])
def test_wrong_encoding_names_line_and_offset(write, message, name):
    good = {"a.csv": b"text\nfine\n"}.get(name, b'{"text": "fine"}\n\n')
    content = good + '{"text": "答"}'.encode("gb18030")
    text = message(DataError, read, write(name, content))
    offset = len(good) + len(b'{"text": "')
    assert f"line 3: byte 0x{content[offset]:02x} at offset {offset} of the file" in text


def test_offset_of_a_bad_byte_counts_the_byte_order_mark(write, message):
    text = message(DataError, read, write("a.jsonl", b"\xef\xbb\xbf\xff"))
    assert "line 1: byte 0xff at offset 3" in text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_utf16_is_recognised_by_its_mark(write, message, encoding):
    content = GOOD.encode(encoding)
    content = content if content.startswith(b"\xff\xfe") else b"\xff\xfe" + content
    assert "is UTF-16: save it as UTF-8" in message(DataError, read, write("a.jsonl", content))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *[("a.jsonl", ""), ("a.jsonl", "\n \n"), ("a.json", ""), ("a.json", "[]")],
        *[("a.csv", ""), ("b.csv", "text\n"), ("a.tsv", "text\tn\n\n")],
    ],
)
def test_a_file_without_rows_is_an_error(write, message, name, content):
    path = write(name, content)
    assert message(DataError, read, path) == f"{path} has no rows"


@pytest.mark.parametrize(
    ("content", "place", "says"),
    [
        ('[\n {"a": 1},\n {"a": \n]', "line 4", "broken JSON"),
        ('[{"a": 1}, 7]', "item 2", "got a number: 7"),
        ("[NaN]", "", "NaN is not a JSON number"),
        ('{"a": 1}\n{"a": ', "line 2", "broken JSON"),
    ],
)
def test_a_bad_json_file_names_the_place(write, message, content, place, says):
    text = message(DataError, read, write("a.json", content))
    assert place in text
    assert says in text


def test_json_rows_are_counted_as_items(write):
    path = write("a.json", '[{"a": 1},\n\n{"a": 2}]')
    assert read(path).where(1) == f"{path}, item 2"


def test_csv_values_stay_the_text_of_the_file(write):
    path = write("a.csv", 'id,when,text\n007,2024-01-02,"a, ""b""\nc"\n\n1e3,,last\n')
    file = read(path)
    assert file.rows == [
        {"id": "007", "when": "2024-01-02", "text": 'a, "b"\nc'},
        {"id": "1e3", "when": "", "text": "last"},
    ]
    assert file.where(1) == f"{path}, line 5"


def test_tsv_is_cut_at_tabs_only(write):
    assert read(write("a.tsv", "q\ta\nx, y\tz\n")).rows == [{"q": "x, y", "a": "z"}]


def test_a_csv_field_may_be_long(write):
    long = "x" * 300_000
    assert read(write("a.csv", f"text\n{long}\n")).rows == [{"text": long}]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('a,b\n1,"two\nlines"\n3\n', "line 4: expected 2 fields as in the header (a, b), got 1"),
        ("a,b\n1,2,3\n", "line 2: expected 2 fields as in the header (a, b), got 3"),
        ('a,b\n1,2\n3,"open\n', "broken CSV"),
        ("a,a\n1,2\n", "line 1: the header names 'a' twice"),
        ("a, \n1,2\n", "line 1: column 2 of the header has no name"),
    ],
)
def test_a_bad_csv_row_is_named(write, message, content, says):
    assert says in message(DataError, read, write("a.csv", content))


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.JSONL.GZ"])
def test_gzip_files_are_read(write, name):
    assert read(write(name, gzip.compress(GOOD.encode()))).rows == [{"text": "a"}]


@pytest.mark.parametrize("content", [GOOD.encode(), gzip.compress(GOOD.encode() * 99)[:-9]])
def test_a_damaged_gzip_file_is_an_error(write, message, content):
    assert "is not a whole gzip file" in message(DataError, read, write("a.jsonl.gz", content))


def test_an_unknown_extension_is_answered_with_the_known_ones(write, message):
    text = message(DataError, read, write("a.txt", GOOD))
    assert "has the extension '.txt': expected one of .jsonl, .json, .csv, .tsv" in text


def test_an_unreadable_file_is_an_error(tmp_path, message):
    (tmp_path / "a.jsonl").mkdir()
    assert message(DataError, read, tmp_path / "a.jsonl").startswith("cannot read")
