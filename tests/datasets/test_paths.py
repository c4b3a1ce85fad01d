import os
from pathlib import Path

import pytest

from opencompass_ext.datasets import paths
from opencompass_ext.datasets.paths import find_data_file, shipped_root
from opencompass_ext.errors import DataError

EXTENSIONS = (".jsonl", ".csv")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder; what is shipped lies in another."""
    for name in ("here", "shipped"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(paths, "shipped_root", lambda: tmp_path / "shipped")
    return tmp_path / "here"


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return path


def test_a_file_is_found_by_its_path_alone(here):
    file = touch(here / "d" / "rows.jsonl")
    assert find_data_file("d/rows.jsonl", None, EXTENSIONS) == file
    assert find_data_file(str(file), None, EXTENSIONS) == file


@pytest.mark.parametrize("name", ["rows", "rows.csv"])
def test_a_file_is_found_by_folder_and_name(here, name):
    file = touch(here / "d" / "rows.csv")
    assert find_data_file("./d/", name, EXTENSIONS) == file


def test_the_current_folder_comes_before_what_is_shipped(here):
    shipped = touch(here.parent / "shipped" / "data" / "rows.jsonl")
    assert find_data_file("data", "rows", EXTENSIONS) == shipped
    own = touch(here / "data" / "rows.jsonl")
    assert find_data_file("data", "rows", EXTENSIONS) == own


def test_a_home_folder_is_expanded(here, monkeypatch):
    file = touch(here / "home" / "rows.jsonl")
    monkeypatch.setenv("HOME", str(here / "home"))
    assert find_data_file("~/rows.jsonl", None, EXTENSIONS) == file


def test_the_data_of_this_checkout_is_what_is_shipped():
    assert (shipped_root() / "data" / "inference_ppl").is_dir()


def test_a_missing_file_names_the_places_and_the_nearest_file(here, message):
    for name in ("other", "a_rows_en", "rows_en"):
        touch(here / "d" / f"{name}.jsonl")
    text = message(DataError, find_data_file, "d", "row_en", EXTENSIONS)
    for root in (here, here.parent / "shipped"):
        assert str(root / "d" / "row_en.jsonl") in text
    assert f"did you mean 'rows_en.jsonl' or 'a_rows_en.jsonl' in {here / 'd'}?" in text


def test_a_name_like_no_other_is_answered_with_what_is_there(here, message):
    touch(here / "d" / "rows_en.jsonl")
    text = message(DataError, find_data_file, "d/x.jsonl", None, EXTENSIONS)
    assert f"{here / 'd'} holds rows_en.jsonl" in text


def test_a_missing_folder_is_named_with_its_near_name(here, message):
    touch(here / "data" / "rows.jsonl")
    text = message(DataError, find_data_file, "dato/rows.jsonl", None, EXTENSIONS)
    assert f"the folder {here / 'dato'} does not exist: did you mean 'data'?" in text


def test_a_folder_without_a_name_lists_its_files(here, message):
    for i in range(12):
        touch(here / "d" / f"{i:02}.jsonl")
    text = message(DataError, find_data_file, "d", None, EXTENSIONS)
    assert "is a folder" in text
    assert "00.jsonl" in text
    assert text.endswith("09.jsonl and 2 more")


def test_a_name_that_fits_two_files_is_refused(here, message):
    touch(here / "d" / "rows.jsonl")
    touch(here / "d" / "rows.csv")
    text = message(DataError, find_data_file, "d", "rows", EXTENSIONS)
    assert "rows.jsonl, rows.csv" in text


@pytest.mark.parametrize(
    ("path", "name", "says"),
    [("", None, "path must be"), (7, None, "path must be"), ("d", ["a"], "name must be")],
)
def test_what_is_no_path_is_refused(here, message, path, name, says):
    assert says in message(DataError, find_data_file, path, name, EXTENSIONS)


def test_path_objects_work_and_give_absolute_paths(here):
    touch(here / "rows.jsonl")
    assert os.path.isabs(find_data_file(Path("rows.jsonl"), None, EXTENSIONS))
