import json
import sys

import pytest

from opencompass_ext.config import dump_config, load_config
from opencompass_ext.errors import ConfigError

OPENCOMPASS_STYLE = """
    from mmengine.config import read_base
    with read_base():
        from .base import demo_datasets, run_cfg as shared
    import os
    from os.path import join
    from math import pi
    import numpy as np, torch
    import opencompass.models
    from opencompass.partitioners import NaivePartitioner as Naive

    datasets = sum((v for k, v in locals().items() if k.endswith('_datasets')), [])
    shared.num_gpus = 2
    models = [dict(type=opencompass.models.Foo, path=join(os.environ['DEMO_HOME'], 'm'))]
    for model in models:
        model.update(run_cfg=shared, model_kwargs=dict(torch_dtype=torch.float16))
    infer = dict(partitioner=dict(type=Naive), sizes=(1, 2))
    def helper(): return 1
    _private = 3
    work_dir = f'out/{helper()}'
"""


@pytest.fixture
def opencompass_style(write, monkeypatch):
    monkeypatch.setenv("DEMO_HOME", "/demo")
    write(
        "base.py",
        """
        from opencompass.datasets import InferencePPLDataset
        demo_datasets = [dict(type=InferencePPLDataset, path='x')]
        run_cfg = dict(num_gpus=1)
        """,
    )
    return write("top.py", OPENCOMPASS_STYLE)


def test_a_config_becomes_plain_json_values(opencompass_style):
    config = load_config(opencompass_style)
    demo = {"type": "opencompass.datasets.InferencePPLDataset", "path": "x"}
    model = {
        "type": "opencompass.models.Foo",
        "path": "/demo/m",
        "run_cfg": {"num_gpus": 2},
        "model_kwargs": {"torch_dtype": "torch.float16"},
    }
    assert config == {
        "demo_datasets": [demo],
        "shared": {"num_gpus": 2},
        "datasets": [demo],
        "models": [model],
        "model": model,
        "infer": {"partitioner": {"type": "opencompass.partitioners.NaivePartitioner"}}
        | {"sizes": [1, 2]},
        "work_dir": "out/1",
    }
    assert json.loads(json.dumps(config, allow_nan=False)) == config


def test_named_packages_are_not_imported(opencompass_style):
    # numpy comes with mmengine; the others must not be there before and not after.
    before = set(sys.modules)
    load_config(opencompass_style)
    added = {name.partition(".")[0] for name in set(sys.modules) - before}
    assert added.isdisjoint({"opencompass", "torch"})


def test_dump_and_reload_are_equal(opencompass_style, tmp_path):
    config = load_config(opencompass_style)
    dump_config(config, tmp_path / "dumped.py")
    assert load_config(tmp_path / "dumped.py") == config


def test_two_loads_share_nothing(opencompass_style):
    first = load_config(opencompass_style)
    first["models"][0]["path"] = "changed"
    assert load_config(opencompass_style)["models"][0]["path"] == "/demo/m"


def test_numbers_as_keys_become_text_as_in_json(write):
    path = write("c.py", "labels = {0: 'no', 1.5: 'x', True: 'yes', None: 'none'}")
    expected = {"0": "no", "1.5": "x", "true": "yes", "null": "none"}
    assert load_config(path)["labels"] == expected
    assert json.loads(json.dumps({0: "no", 1.5: "x", True: "yes", None: "none"})) == expected


def test_paths_become_text(write):
    path = write("c.py", "from pathlib import Path\nwork_dir = Path(__file__).parent / 'out'")
    assert load_config(path)["work_dir"] == str(path.parent / "out")


def test_star_import_brings_all_variables(write):
    write("base.py", "a = [1]\nb = dict(c=2)")
    path = write("c.py", "with read_base():\n    from .base import *\na.append(b.c)")
    assert load_config(path) == {"a": [1, 2], "b": {"c": 2}}


def test_several_read_base_blocks_and_imports_on_one_line(write):
    write("one.py", "x = 1")
    write("two.py", "y = 2")
    path = write(
        "c.py",
        """
        import os, json, torch
        with read_base():
            from .one import x
        with read_base():
            from .two import y
        z = x + y
        """,
    )
    assert load_config(path) == {"x": 1, "y": 2, "z": 3}


def test_a_helper_may_name_classes(write):
    path = write(
        "c.py",
        """
        from my import A, B
        tasks = [('a', A), ('b', B)]
        x_datasets = [dict(abbr=abbr, type=kind) for abbr, kind in tasks]
        """,
    )
    config = load_config(path)
    assert config["tasks"] == [["a", "my.A"], ["b", "my.B"]]
    assert config["x_datasets"] == [{"abbr": "a", "type": "my.A"}, {"abbr": "b", "type": "my.B"}]


def test_environment_and_opened_files_can_be_used(write):
    write("prompt.txt", "Q: {question}")
    path = write("c.py", "with open('prompt.txt') as f:\n    template = f.read()")
    assert load_config(path) == {"template": "Q: {question}"}


def test_old_style_base_files_work(write):
    write("base.py", "models = [dict(path='a')]\ninfer = dict(runner=dict(retry=1, debug=True))")
    path = write(
        "c.py",
        """
        _base_ = ['base.py']
        infer = dict(runner=dict(debug=False))
        datasets = [dict(path='d')]
        """,
    )
    assert load_config(path) == {
        "models": [{"path": "a"}],
        "datasets": [{"path": "d"}],
        "infer": {"runner": {"retry": 1, "debug": False}},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = [\n", r"c\.py:1: .*never closed"),
        ("x = 1\nmodels = undefined\n", r"c\.py:2: NameError: name 'undefined'"),
        ("x = 1\ny = {}['a']\n", r"c\.py:2: KeyError: 'a'"),
        ("raise SystemExit(3)\n", r"c\.py:1: SystemExit: 3"),
        ("x = 1\nassert x == 2\n", r"c\.py:2: AssertionError$"),
        ("def f():\n    return 1 / 0\nf()\n", r"c\.py:2: ZeroDivisionError"),
        ("import os\n\nx = os.environ['NOT_SET_HERE']\n", r"c\.py:3: the environment variable"),
        ("from pkg import f\nx = 1\ny = f(x)\n", r"c\.py:3: TypeError: pkg\.f is only named here"),
        ("from pkg import f\nclass K(f): pass\n", r"c\.py:2: TypeError: pkg\.f is only named"),
        ("from pkg import f\ny = [*f]\n", r"c\.py:2: TypeError: pkg\.f is only named here"),
        ("from pkg import *\n", r"c\.py:1: 'from pkg import \*' works only inside"),
        ("from .pkg import f\n", r"c\.py:1: 'from \.pkg import f' stands outside"),
        ("if 1:\n    with read_base():\n        from .a import b\n", r"c\.py:2: .*top level"),
        ("with read_base():\n    import a\n", r"c\.py:2: inside 'with read_base\(\):' only"),
        ("_base_ = 'nowhere.py'\n", r"c\.py: FileNotFoundError: .*nowhere\.py"),
        ("_base_ = []\nfrom not_there_at_all import x\n", r"c\.py:2: ModuleNotFoundError.*really"),
        ("_base_ = []\nx = 1 / 0\n", r"c\.py:2: ZeroDivisionError"),
    ],
)
def test_mistakes_are_told_with_file_and_line(write, text, message):
    with pytest.raises(ConfigError, match=message):
        load_config(write("c.py", text))


@pytest.mark.parametrize("content", [b"x = '\xff'\n", b"x = 1\x00\n", "x = 'é'".encode("utf-16")])
def test_a_file_that_is_no_text_is_told(tmp_path, content):
    path = tmp_path / "c.py"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"c\.py"):
        load_config(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = [\n    dict(f=lambda x: x)]", r"c\.py:2: models\[0\]\.f holds a lambda"),
        ("def g(): pass\nx = dict(a=[g])", r"c\.py:2: x\.a\[0\] holds the function g"),
        ("class K: pass\nmodels = [dict(type=K)]", r"models\[0\]\.type is the class K, defined in"),
        ("x = dict(a={1, 2})", r"x\.a holds \{1, 2\} \(set\)"),
        ("x = dict(a=float('nan'))", r"x\.a is nan, and JSON"),
        ("x = dict(a={(1, 2): 3})", r"x\.a has the key \(1, 2\)"),
        ("x = dict(a={1: 'a', '1': 'b'})", r"x\.a has the key '1' twice"),
        ("from my import P\nmodels = [P]", r"c\.py:2: models\[0\] is the imported object my\.P"),
        ("from my import P\na_datasets = [dict(x=P)]", r"a_datasets\[0\]\.x is the imported obj"),
        ("models = (m for m in [])", r"models holds <generator"),
        ("x = []\nx.append(x)", r"c\.py: a list or dict in it contains itself"),
    ],
)
def test_values_that_are_no_data_are_told_with_their_key_path(write, text, message):
    with pytest.raises(ConfigError, match=message):
        load_config(write("c.py", text))


def test_a_missing_file_is_answered_with_near_names(write):
    write("eval_demo.py", "")
    with pytest.raises(ConfigError, match=r"no config file .*eval_dmo\.py: did you mean 'eval_de"):
        load_config("eval_dmo.py")


def test_a_missing_file_is_not_answered_with_names_that_are_far(write):
    write("run.py", "")
    with pytest.raises(ConfigError, match=r"no config file .*nofile\.py: the file does not exist$"):
        load_config("nofile.py")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none/c.py", "the folder .*none does not exist"),
        ("folder.py", "is a folder"),
        ("c.yaml", "a config is a Python file"),
    ],
)
def test_what_is_no_config_file_is_told(write, tmp_path, name, message):
    (tmp_path / "folder.py").mkdir()
    write("c.yaml", "a: 1")
    with pytest.raises(ConfigError, match=message):
        load_config(name)


def test_an_unreadable_base_style_mix_is_told(write):
    write("old.py", "_base_ = []\nx = 1")
    path = write("c.py", "with read_base():\n    from .old import x")
    with pytest.raises(ConfigError, match=r"old\.py: a file with '_base_ = \.\.\.' cannot be read"):
        load_config(path)
