"""A changed file changes the fingerprint; a changed place or name of the folder does not."""

import shutil

import pytest

from opencompass_ext.models.identity import folder_fingerprint


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "tokenizer.json").write_text("{}")
    (path / "model.safetensors").write_bytes(bytes(3_000_000))
    return path


def test_a_copy_elsewhere_is_the_same_model(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "other name")
    assert folder_fingerprint(tmp_path / "other name") == folder_fingerprint(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_settings_count_to_the_last_character(folder, name):
    before = folder_fingerprint(folder)
    (folder / name).write_text("{ }")
    assert folder_fingerprint(folder) != before


@pytest.mark.parametrize("place", [0, 777_777, 1_500_000, 2_999_000])
def test_every_tensor_of_a_file_counts(folder, place):
    before = folder_fingerprint(folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(place)
        file.write(b"x" * 1000)
    assert folder_fingerprint(folder) != before


def test_the_size_counts(folder):
    before = folder_fingerprint(folder)
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"\0")
    assert folder_fingerprint(folder) != before


def test_what_decides_no_score_does_not_count(folder):
    before = folder_fingerprint(folder)
    (folder / "README.md").write_text("about it")
    (folder / "generation_config.json").write_text("{}")
    assert folder_fingerprint(folder) == before
