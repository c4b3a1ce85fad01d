"""Files are written whole or not at all, and JSON is strict."""

import json
import math
import os
import stat

import pytest

from opencompass_ext.errors import OutputError
from opencompass_ext.writing import atomic_writer, to_json, write_json, writing


def test_json_is_strict_and_readable():
    value = {"数": "x😀", "n": [1, 2.5, None, True]}
    assert json.loads(to_json(value)) == value
    assert "数".encode() in to_json(value)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON"):
            to_json({"ppl": bad})


def test_numpy_numbers_become_plain_numbers():
    numpy = pytest.importorskip("numpy")
    value = {"a": numpy.float32(0.5), "b": numpy.int64(3), "c": numpy.array(2.0)}
    assert to_json(value) == b'{"a": 0.5, "b": 3, "c": 2.0}'
    with pytest.raises(TypeError, match="ndarray"):
        to_json(numpy.array([1, 2]))
    with pytest.raises(ValueError, match="JSON"):
        to_json(numpy.float32("nan"))


def test_half_a_surrogate_pair_survives_as_valid_utf8():
    content = to_json({"text": "a\ud800b"})
    content.decode("utf-8")
    assert json.loads(content) == {"text": "a\ud800b"}


def test_write_json_leaves_only_the_file_with_usual_permissions(tmp_path):
    path = tmp_path / "new" / "x.json"
    write_json(path, {"a": [1]})
    assert path.read_text() == '{\n    "a": [\n        1\n    ]\n}'
    assert os.listdir(path.parent) == ["x.json"]
    other = tmp_path / "plain"
    other.write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"old": 1})

    def write_half():
        with atomic_writer(path) as file:
            file.write(b"half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_half()
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"new": math.nan})
    assert json.loads(path.read_bytes()) == {"old": 1}
    assert os.listdir(tmp_path) == ["x.json"]


@pytest.mark.parametrize(
    ("number", "words"),
    [(28, "disk is full"), (13, "no permission"), (30, "no permission"), (5, "put/output")],
)
def test_an_os_error_becomes_one_clear_error(tmp_path, number, words):
    with pytest.raises(OutputError, match=words) as caught, writing(tmp_path / "f"):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path / "f") in str(caught.value)
