import sys
import textwrap

import pytest

from opencompass_ext.config import bases, load_config
from opencompass_ext.errors import ConfigError


@pytest.fixture
def ours(tmp_path_factory, monkeypatch):
    """A stand-in for the configs of this package."""
    folder = tmp_path_factory.mktemp("ours")
    (folder / "datasets" / "demo").mkdir(parents=True)
    (folder / "datasets" / "demo" / "a.py").write_text("origin = 'ours a'")
    (folder / "datasets" / "demo" / "b.py").write_text("origin = 'ours b'")
    monkeypatch.setattr(bases, "packaged_configs", lambda: folder)
    return folder


def read(module: str) -> str:
    return f"with read_base():\n    from {module} import origin"


def test_opencompass_configs_are_ours_when_opencompass_is_absent(write, ours):
    path = write("c.py", read("opencompass.configs.datasets.demo.a"))
    assert load_config(path) == {"origin": "ours a"}


def test_an_installed_opencompass_wins_file_by_file(write, ours, tmp_path_factory, monkeypatch):
    site = tmp_path_factory.mktemp("site")
    package = site / "opencompass"
    (package / "configs" / "datasets" / "demo").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    (package / "configs" / "datasets" / "demo" / "a.py").write_text("origin = 'theirs a'")
    monkeypatch.syspath_prepend(site)
    path = write("c.py", read("opencompass.configs.datasets.demo.a"))
    assert load_config(path) == {"origin": "theirs a"}
    path = write("c.py", read("opencompass.configs.datasets.demo.b"))
    assert load_config(path) == {"origin": "ours b"}
    assert "opencompass" not in sys.modules


def test_our_own_configs_can_be_named(write, ours):
    path = write("c.py", read("opencompass_ext.configs.datasets.demo.b"))
    assert load_config(path) == {"origin": "ours b"}


@pytest.mark.parametrize("folder", ["configs", "my_configs"])
def test_a_folder_that_is_not_installed_is_found_above_the_config(write, folder):
    write(f"{folder}/datasets/x.py", "origin = 'beside'")
    path = write("experiments/2026/c.py", read(f"{folder}.datasets.x"))
    assert load_config(path) == {"origin": "beside"}


def test_a_folder_that_is_not_installed_is_found_in_the_working_folder(
    write, tmp_path_factory, monkeypatch
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "configs").mkdir()
    (elsewhere / "configs" / "x.py").write_text("origin = 'cwd'")
    path = write("c.py", read("configs.x"))
    monkeypatch.chdir(elsewhere)
    assert load_config(path) == {"origin": "cwd"}


def test_a_base_finds_its_own_bases_from_where_it_lies(write):
    write("lib/configs/inner.py", "origin = 'inner'")
    write("lib/configs/outer.py", read("configs.inner"))
    path = write("c.py", read(".lib.configs.outer"))
    assert load_config(path) == {"origin": "inner"}


def test_relative_imports_go_up(write):
    write("shared/x.py", "origin = 'up'")
    path = write("a/b/c.py", read("...shared.x"))
    assert load_config(path) == {"origin": "up"}


def test_a_missing_base_lists_every_place_that_was_tried(write, ours, tmp_path):
    path = write("experiments/c.py", "x = 1\n" + read("configs.datasets.nowhere"))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    text = str(caught.value)
    assert text.startswith("experiments/c.py:3: no config file for 'from configs.datasets.nowhere")
    for place in ("experiments/configs", "configs"):
        assert str(tmp_path / place / "datasets" / "nowhere.py") in text


def test_a_missing_opencompass_config_names_our_folder(write, ours):
    path = write("c.py", read("opencompass.configs.datasets.mmlu.mmlu_ppl"))
    with pytest.raises(ConfigError, match=str(ours / "datasets" / "mmlu" / "mmlu_ppl.py")):
        load_config(path)


def test_a_missing_variable_is_answered_with_near_names(write):
    write("base.py", "demo_datasets = []\n_hidden = 1")
    path = write("c.py", "with read_base():\n    from .base import demo_dataset")
    message = r"c\.py:2: base\.py has no variable 'demo_dataset': did you mean 'demo_datasets'"
    with pytest.raises(ConfigError, match=message):
        load_config(path)


def test_a_circle_is_told(write):
    write("a.py", "with read_base():\n    from .b import x")
    write("b.py", "with read_base():\n    from .a import x")
    with pytest.raises(ConfigError, match=r"b\.py:2: a circle: a\.py is being read already"):
        load_config("a.py")


def test_an_error_in_a_base_names_the_base(write):
    write("base.py", "x = 1\ny = x.z")
    path = write("c.py", "with read_base():\n    from .base import x")
    with pytest.raises(ConfigError, match=r"base\.py:2: AttributeError"):
        load_config(path)


def test_a_config_loads_as_opencompass_wrote_it(write, ours):
    (ours / "datasets" / "inference_ppl").mkdir()
    (ours / "datasets" / "inference_ppl" / "inference_ppl.py").write_text(
        textwrap.dedent(
            """
            from opencompass.openicl.icl_retriever import ZeroRetriever
            from opencompass.datasets import InferencePPLDataset
            inference_ppl_datasets = [
                dict(type=InferencePPLDataset, infer_cfg=dict(retriever=dict(type=ZeroRetriever)))]
            """
        )
    )
    path = write(
        "c.py",
        """
        from mmengine.config import read_base
        with read_base():
            from opencompass.configs.datasets.inference_ppl.inference_ppl import (
                inference_ppl_datasets)
        datasets = [*inference_ppl_datasets]
        """,
    )
    (dataset,) = load_config(path)["datasets"]
    assert dataset["type"] == "opencompass.datasets.InferencePPLDataset"
    retriever = dataset["infer_cfg"]["retriever"]
    assert retriever == {"type": "opencompass.openicl.icl_retriever.ZeroRetriever"}


def test_packaged_configs_is_the_folder_that_ships():
    folder = bases.packaged_configs()
    assert {p.name for p in folder.iterdir()} >= {"datasets", "models", "summarizers"}
