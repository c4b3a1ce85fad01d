"""Every file of ``configs/`` and ``examples/`` works as it ships."""

import ast
from pathlib import Path

import pytest

from opencompass_ext.catalog import KINDS, find_datasets, find_models, find_summarizer, list_entries
from opencompass_ext.config import dump_config, load_config, packaged_configs
from opencompass_ext.datasets.paths import find_data_file
from opencompass_ext.schema import check_config, check_parts, complete_config

REPOSITORY = Path(__file__).parents[1]
CONFIGS = sorted(p for p in packaged_configs().rglob("*.py") if p.name != "__init__.py")
LOCAL_DATASETS = {"InferencePPLDataset", "JsonlDataset", "PPLqaDataset"}
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))


def name_of(path):
    return str(path.relative_to(REPOSITORY))


def test_there_are_configs_and_examples():
    assert {path.relative_to(packaged_configs()).parts[0] for path in CONFIGS} <= {*KINDS}
    assert EXAMPLES


@pytest.mark.parametrize("path", [*CONFIGS, *EXAMPLES], ids=name_of)
def test_it_loads_dumps_and_reloads_equal(path, tmp_path):
    config = load_config(path)
    dump_config(config, tmp_path / "dumped.py")
    assert load_config(tmp_path / "dumped.py") == config


@pytest.mark.parametrize("path", [*CONFIGS, *EXAMPLES], ids=name_of)
def test_its_first_line_says_what_it_is(path):
    first_line = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]
    assert len(first_line) > 20


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_key_and_type_of_a_config_is_known(path):
    config = load_config(path)
    assert check_parts(config, [path]) == []
    assert any(n in ("models", "judge", "summarizer") or n.endswith("_datasets") for n in config)


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_every_key_and_type_of_an_example_is_known(path):
    # What is only generated, for a second example to read, has no evaluator.
    is_first_half = f"{path.name} -m infer" in path.read_text("utf-8")
    mode = "infer" if is_first_half else "all"
    assert check_config(load_config(path), [path], mode=mode) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_an_example_fits_on_one_screen(path):
    assert len(path.read_text("utf-8").splitlines()) <= 60


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_the_data_of_an_example_is_there(path, monkeypatch, tmp_path):
    # From any working folder: relative paths are found among the files that ship.
    monkeypatch.chdir(tmp_path)
    for dataset in complete_config(load_config(path))["datasets"]:
        if dataset["type"].rpartition(".")[2] in LOCAL_DATASETS:
            assert find_data_file(dataset["path"], dataset.get("name"), [".jsonl"]).is_file()


# A judge is read by the config that asks it, not named on the command line.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "judges"])
def test_every_config_can_be_asked_for_by_its_name(kind):
    find = {"models": find_models, "datasets": find_datasets}.get(kind, find_summarizer)
    for entry in list_entries(kind, [packaged_configs()]):
        assert find(entry.name, [packaged_configs()])


@pytest.mark.parametrize("kind", ["models", "datasets"])
def test_one_abbr_stands_for_one_thing(kind):
    find = find_models if kind == "models" else find_datasets
    by_abbr = {}
    for part in find("*", [packaged_configs()]):
        for entry in part.value:
            assert by_abbr.setdefault(entry["abbr"], entry) == entry
    assert by_abbr
