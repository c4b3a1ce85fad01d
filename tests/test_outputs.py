import json
import math
import os
import re
import stat
from datetime import datetime

import pytest

from opencompass_ext.errors import ConfigError, OutputError
from opencompass_ext.outputs import (
    RunFolder,
    atomic_writer,
    safe_name,
    to_json,
    write_json,
    writing,
)

HOSTILE_NAMES = [
    "org/model",
    "org_model",
    "org:model",
    "org\\model",
    "a b",
    "a_b",
    " a b",
    "a b ",
    'quo"te',
    "quo'te",
    "中文数据",
    "中文/数据",
    "中文_数据",
    "x" * 300,
    "x" * 299 + "y",
    "数" * 100,
    "..",
    ".",
    "",
    ".hidden",
    "trailing.",
    "../../etc/passwd",
    "/etc/passwd",
    "nul",
    "CON.json",
    "line\nbreak",
    "zero\0byte",
    "é",  # one character
    "e\u0301",  # the same to the eye, in two
    "Model",
    "model",
    "😀",
    "a~1234567890ab",
    "org_model~a123334b7b39",
    "\ud800",
]


def test_hostile_names_stay_in_their_folder_and_apart(tmp_path):
    names = [safe_name(name) for name in HOSTILE_NAMES]
    assert len(set(names)) == len(HOSTILE_NAMES)
    for name in names:
        assert len(name.encode()) <= 150
        assert (tmp_path / f"{name}.json").resolve().parent == tmp_path.resolve()
        (tmp_path / f"{name}.json").write_text(name)
    assert len(list(tmp_path.glob("*.json"))) == len(HOSTILE_NAMES)


@pytest.mark.parametrize(
    "name", ["smollm2-135m", "inference_ppl_zh", "v1.5+lora=8", "中文数据", "A"]
)
def test_a_name_that_needs_no_change_is_kept(name):
    assert safe_name(name) == name


def test_no_name_that_is_kept_can_equal_a_changed_one():
    changed = safe_name("a/b")
    assert safe_name(changed) != changed


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


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path):
    folders = [RunFolder.create(tmp_path).root for _ in range(3)]
    assert len(set(folders)) == 3
    for folder in folders:
        assert re.fullmatch(r"\d{8}_\d{6}", folder.name)
        datetime.strptime(folder.name, "%Y%m%d_%H%M%S")
    assert RunFolder.reopen(tmp_path, "latest").root == max(folders)


def test_reopen_by_name(tmp_path):
    (tmp_path / "20250101_000000").mkdir()
    (tmp_path / "20250102_000000").mkdir()
    (tmp_path / "zz_notes").mkdir()
    (tmp_path / "20250103_000000").write_text("a file")
    assert RunFolder.reopen(tmp_path, "20250101_000000").root.name == "20250101_000000"
    assert RunFolder.reopen(tmp_path, "latest").root.name == "20250102_000000"
    with pytest.raises(ConfigError, match=r"20250101_000000, 20250102_000000"):
        RunFolder.reopen(tmp_path, "20240101_000000")
    with pytest.raises(ConfigError, match="nothing to resume: no run"):
        RunFolder.reopen(tmp_path, "../" + tmp_path.name)


def test_reopen_where_nothing_ever_ran(tmp_path):
    with pytest.raises(ConfigError, match="nothing to resume: no runs under"):
        RunFolder.reopen(tmp_path / "absent", "latest")
    assert not (tmp_path / "absent").exists()


def test_create_where_the_work_dir_is_a_file(tmp_path):
    (tmp_path / "w").write_text("")
    with pytest.raises(ConfigError, match="choose another with -w"):
        RunFolder.create(tmp_path / "w")


def test_all_paths_of_a_run_lie_in_its_folder(tmp_path):
    run = RunFolder(tmp_path)
    paths = [
        run.predictions("../m", "../d"),
        run.results("/m", ".."),
        run.log("infer", "..", "../../d"),
        run.summary("20250101_000000", "csv"),
        run.config_dump("20250101_000000"),
    ]
    for path in paths:
        assert path.resolve().is_relative_to(tmp_path.resolve())
    assert run.log("eval", "m", "d") == tmp_path / "logs" / "eval" / "m" / "d.out"
    assert run.results("m", "d") == tmp_path / "results" / "m" / "d.json"
