"""What is installed: the code with its configs and data, and nothing else."""

import configparser
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOVED = {"opencompass_ext.configs": "configs", "opencompass_ext.data": "data"}

OUTSIDE = """
import sys
import opencompass_ext
from opencompass_ext.config import load_config, packaged_configs
from opencompass_ext.datasets import InferencePPLDataset
assert opencompass_ext.__file__.startswith(sys.argv[1])
config = load_config(packaged_configs() / "datasets/inference_ppl/inference_ppl.py")
for dataset in config["inference_ppl_datasets"]:
    assert len(InferencePPLDataset(path=dataset["path"], name=dataset["name"]).test) >= 125
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build a wheel from a copy, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    skip = shutil.ignore_patterns(".*", "outputs", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "source", ignore=skip)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    where = ["--no-index", "--wheel-dir", str(folder), str(folder / "source")]
    subprocess.run([*build, *where], check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def sources(folder, *patterns):
    return {
        path.relative_to(ROOT).as_posix()
        for pattern in patterns
        for path in (ROOT / folder).rglob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_it_holds_the_package_with_configs_and_data_and_nothing_else(names):
    code = sources("opencompass_ext", "*.py", "py.typed", "prompts/*/*.txt", "prompts/*/*.json")
    moved = {f"opencompass_ext/{name}" for name in sources("configs", "*") | sources("data", "*")}
    assert names == code | moved


def test_it_carries_the_licences(wheel, names):
    assert "opencompass_ext/data/gsm8k/LICENSE" in names
    assert "opencompass_ext/data/inference_ppl/LICENSE-gsm8k" in names
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())


def test_every_folder_of_code_is_listed_as_a_package():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = {line for line in setup["options"]["packages"].split() if not line.startswith("#")}
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "opencompass_ext").rglob("*.py")}
    assert listed == {".".join(folder.parts) for folder in folders} | set(MOVED)


def test_it_works_outside_the_checkout(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    site = str(tmp_path / "site")
    ran = subprocess.run(
        [sys.executable, "-c", OUTSIDE, site],
        cwd=tmp_path,
        env={"PYTHONPATH": site, "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
