import gzip
import json
import logging

import pytest

from opencompass_ext.partitioners import sizes
from opencompass_ext.partitioners.sizes import Size, SizeBook, content_signature


@pytest.fixture
def book(tmp_path):
    return SizeBook(tmp_path / "cache" / "sizes.json")


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(f'{{"text": "row {i}", "label": []}}\n' for i in range(10)))
    return path


def dataset(path, **changes):
    return {"abbr": "d", "type": "InferencePPLDataset", "path": str(path), **changes}


def test_rows_and_tokens_of_a_file(book, data):
    (size,) = book([dataset(data)])
    assert size == Size(10, data.stat().st_size // 4)


def test_blank_lines_are_no_rows_and_gzip_is_read(book, data, tmp_path):
    packed = tmp_path / "data2.jsonl.gz"
    packed.write_bytes(gzip.compress(data.read_bytes() + b"\n  \n"))
    assert book([dataset(packed)])[0].rows == 10


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({"samples": 7}, 7),
        ({"limit": 4}, 4),
        ({"reader_cfg": {"test_range": "[2:5]"}}, 3),
        ({"reader_cfg": {"test_range": 0.5}, "limit": 3}, 3),
        ({"type": "JsonlDataset"}, 10),
    ],
)
def test_only_rows_that_are_evaluated_count(book, data, changes, rows):
    assert book([dataset(data, **changes)])[0].rows == rows


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "x,y\n1,2\n3,4\n"), ("a.json", '[{"x": 1}, {"x": 2}]'), ("a.tsv", "x\n1\n2\n")],
)
def test_other_formats(book, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert book([dataset(tmp_path / name, type="JsonlDataset")])[0].rows == 2


def test_what_is_not_there_has_no_size_and_a_reason(book, data):
    sizes = book([dataset(data.parent / "gone.jsonl", abbr="gone"), dataset(data)])
    assert sizes[0] is None
    assert sizes[1].rows == 10
    assert "gone.jsonl" in book.reasons["gone"]


def slow(path, **changes):
    return dataset(path, type="sizes_fakes.Counted", **changes)


def test_a_class_that_cannot_count_is_built_elsewhere_and_remembered(data, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    cache = tmp_path / "cache.json"
    assert SizeBook(cache)([slow(data), slow(data, abbr="e", extra=1)]) == [Size(10, 12)] * 2
    assert "measuring 2 datasets" in caplog.text
    caplog.clear()
    assert SizeBook(cache)([slow(data)]) == [Size(10, 12)]
    assert "measuring" not in caplog.text
    SizeBook(cache, is_rebuilding=True)([slow(data)])
    assert "measuring 1 datasets" in caplog.text


def test_a_file_that_has_changed_is_measured_anew(data, tmp_path):
    cache = tmp_path / "cache.json"
    assert SizeBook(cache)([slow(data)])[0].rows == 10
    data.write_text(data.read_text() * 2)
    assert SizeBook(cache)([slow(data)])[0].rows == 20


def test_two_datasets_of_one_abbr_do_not_share_a_size(data, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "x"}\n')
    cache = tmp_path / "cache.json"
    assert SizeBook(cache)([slow(data)])[0].rows == 10
    assert SizeBook(cache)([slow(other)])[0].rows == 1


def test_a_class_that_fails_or_dies_costs_only_its_own_size(data, book):
    sizes = book([slow(data, abbr="bad", extra="fail"), slow(data, abbr="dead", extra="die")])
    assert sizes == [None, None]
    assert "ValueError: on purpose" in book.reasons["bad"]
    assert "exit code 3" in book.reasons["dead"]
    assert book([slow(data, abbr="dead", extra="die"), slow(data, abbr="good")])[1].rows == 10


def test_nothing_is_written_when_that_is_not_wanted(data, tmp_path):
    SizeBook(tmp_path / "cache.json", is_read_only=True)([slow(data)])
    assert not (tmp_path / "cache.json").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 3}', '{"a": ["x", "y"]}'])
def test_a_damaged_cache_is_not_used(data, tmp_path, caplog, content):
    cache = tmp_path / "cache.json"
    cache.write_text(content)
    assert SizeBook(cache)([slow(data)])[0].rows == 10
    assert "measured anew" in caplog.text
    assert len(json.loads(cache.read_text())) == 1


def test_the_signature_follows_the_files_and_the_config(data, tmp_path):
    first = content_signature(slow(data))
    assert content_signature(slow(data, abbr="other")) == first
    assert content_signature(slow(data, extra=1)) != first
    folder = dataset(tmp_path)
    before = content_signature(folder)
    (tmp_path / "new.jsonl").write_text("{}")
    assert content_signature(folder) != before
    assert content_signature({"type": "HubDataset", "path": "openai/gsm8k"}) is None


def test_a_file_that_cannot_be_read_has_no_signature(data, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(sizes, "file_sha256", refuse)
    assert content_signature(slow(data)) is None


def test_a_class_that_loads_other_rows_than_its_base_is_not_asked_to_count(book, data):
    assert book([dataset(data, type="sizes_fakes.Filtered")])[0].rows == 5
