"""A changed file changes the fingerprint; a changed place or name of the folder does not."""

import shutil

import pytest

from opencompass_ext.models.identity import file_fingerprint, folder_fingerprint
from opencompass_ext.models.sources import source_identity


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


def test_a_single_file_counts_without_its_name_and_other_weights(tmp_path):
    file = tmp_path / "q4.gguf"
    file.write_bytes(bytes(10_000))
    before = source_identity(str(file), {})
    (tmp_path / "q8.gguf").write_bytes(b"another")
    (tmp_path / "README.md").write_text("about them")
    assert source_identity(str(file), {}) == before
    assert source_identity(str(shutil.copy(file, tmp_path / "copy.gguf")), {}) == before
    file.write_bytes(bytes(9_999) + b"x")
    assert source_identity(str(file), {}) != before


def test_a_tokenizer_beside_a_single_file_counts_as_it_is_used_instead_of_its_own(tmp_path):
    file = tmp_path / "q4.gguf"
    file.write_bytes(bytes(10_000))
    seen = [source_identity(str(file), {})]
    for content in ("{}", "{ }"):
        (tmp_path / "tokenizer.json").write_text(content)
        seen.append(source_identity(str(file), {}))
    assert seen[0] != seen[1] != seen[2] != seen[0]


def test_a_small_file_counts_to_the_last_byte(tmp_path):
    file = tmp_path / "config.json"
    file.write_text("{}")
    before = file_fingerprint(file)
    file.write_text("{ }")
    assert file_fingerprint(file) != before
