import pytest

from opencompass_ext.catalog import find_datasets, find_models, find_summarizer, list_entries
from opencompass_ext.errors import ConfigError


@pytest.fixture
def folders(tmp_path):
    """Two config folders; a name is looked up in the first one first."""
    files = {
        "mine/models/a/tiny.py": "models = [dict(path='mine')]",
        "ours/models/tiny.py": "models = [dict(path='ours')]",
        "ours/models/hf_small.py": "models = [dict(path='small')]",
        "ours/models/hf_large.py": "models = [dict(path='large')]",
        "ours/models/x/twice.py": "models = []",
        "ours/models/y/twice.py": "models = []",
        "ours/models/__init__.py": "",
        "ours/models/wrong.py": "model = []",
        "ours/datasets/demo.py": (
            "a_datasets = [dict(path='a')]\nb_datasets = [dict(path='b')]\nb_few = [dict(path='f')]"
        ),
        "ours/datasets/no_list.py": "a_datasets = 3",
        "ours/summarizers/short.py": "summarizer = dict(n=1)\nother = dict(n=2)",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [tmp_path / "mine", tmp_path / "ours"]


def paths(found):
    return [entry["path"] for part in found for entry in part.value]


def test_the_first_folder_with_the_name_is_taken(folders):
    assert paths(find_models("tiny", folders)) == ["mine"]
    assert paths(find_models("tiny", folders[1:])) == ["ours"]


def test_wildcards_take_all_that_match_in_order(folders):
    assert paths(find_models("hf_*", folders)) == ["large", "small"]


def test_a_plain_name_that_fits_twice_is_refused_and_both_are_listed(folders):
    with pytest.raises(ConfigError) as caught:
        find_models("twice", folders)
    assert "'twice' fits 2 configs of models" in str(caught.value)
    for folder in ("x", "y"):
        assert str(folders[1] / "models" / folder / "twice.py") in str(caught.value)


def test_an_unknown_name_is_answered_with_near_names(folders):
    with pytest.raises(ConfigError, match=r"models: .* 'hf_smal' in .*: did you mean 'hf_small'"):
        find_models("hf_smal", folders)


def test_without_any_config_that_is_said(tmp_path):
    with pytest.raises(ConfigError, match="there are none"):
        find_models("tiny", [tmp_path])


def test_a_file_without_its_variable_is_told(folders):
    with pytest.raises(ConfigError, match=r"wrong\.py has no variable 'models': did you mean 'mod"):
        find_models("wrong", folders)


def test_all_variables_that_end_in_datasets_are_joined(folders):
    assert paths(find_datasets("demo", folders)) == ["a", "b"]


def test_a_suffix_chooses_variables(folders):
    assert paths(find_datasets("demo/b_datasets", folders)) == ["b"]
    assert paths(find_datasets("demo/_few", folders)) == ["f"]


def test_a_suffix_that_fits_nothing_is_told(folders):
    with pytest.raises(ConfigError, match=r"no variable that ends in 'c_datasets': did you mean"):
        find_datasets("demo/c_datasets", folders)


def test_datasets_that_are_no_list_are_told(folders):
    with pytest.raises(ConfigError, match=r"no_list\.py: a_datasets must be a list, got 3"):
        find_datasets("no_list", folders)


def test_a_summarizer_and_another_variable_of_its_file(folders):
    assert find_summarizer("short", folders).value == {"n": 1}
    assert find_summarizer("short/other", folders).value == {"n": 2}


def test_entries_are_sorted_by_name(folders):
    names = [entry.name for entry in list_entries("models", folders)]
    assert names == ["hf_large", "hf_small", "tiny", "tiny", "twice", "twice", "wrong"]
