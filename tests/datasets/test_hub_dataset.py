import os
import subprocess
import sys

import pytest
from datasets import Dataset, DatasetDict

from opencompass_ext.datasets import HFDataset
from opencompass_ext.errors import DataError

ROWS = Dataset.from_dict({"q": ["a", "b"]})


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def test_a_saved_data_set_is_read(tmp_path):
    ROWS.save_to_disk(tmp_path / "saved")
    assert HFDataset(path=str(tmp_path / "saved")).test["q"][:] == ["a", "b"]


def test_a_split_of_a_saved_data_set_is_chosen(tmp_path, message):
    DatasetDict(train=ROWS, dev=ROWS.select([1])).save_to_disk(tmp_path / "saved")
    path = str(tmp_path / "saved")
    assert HFDataset(path=path, split="dev").test["q"][:] == ["b"]
    reader = {"test_split": "dev"}
    assert HFDataset(path=path, reader_cfg=reader).test["q"][:] == ["b"]
    text = message(DataError, HFDataset, path=path, split="test")
    assert text.endswith("has no split 'test'; it has train, dev")


def test_a_folder_of_data_files_is_read(write):
    path = write("folder/train.jsonl", '{"q": "a"}\n{"q": "b"}\n')
    data = HFDataset(path=os.path.dirname(path), split="train")
    assert data.test["q"][:] == ["a", "b"]


def test_a_folder_that_holds_no_data_is_an_error(tmp_path, message):
    text = message(DataError, HFDataset, path=str(tmp_path))
    assert text.startswith(f"cannot load the data set folder {tmp_path}")


@pytest.mark.parametrize("path", ["./nowhere", "/nowhere/at/all"])
def test_a_missing_folder_is_not_taken_for_a_hub_id(message, path):
    assert "there is no folder" in message(DataError, HFDataset, path=path)


def test_what_cannot_be_a_hub_id_is_an_error(message):
    assert message(DataError, HFDataset, path="a/b/c/d").startswith("cannot load 'a/b/c/d'")
    assert "path must be" in message(DataError, HFDataset, path="")


def test_offline_the_error_says_what_to_do(tmp_path):
    code = "from opencompass_ext.datasets import HFDataset; HFDataset(path='openai/gsm8k')"
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith("opencompass_ext.errors.DataError: cannot load 'openai/gsm8k'")
    assert "the hub cannot be reached" in last
    assert "JsonlDataset" in last
