"""Where the files of a run lie, whatever models and data sets are called."""

import re
from datetime import datetime

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.outputs import RunFolder, safe_name

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
