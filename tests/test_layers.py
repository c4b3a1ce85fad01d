"""Who may import whom: read from the source of every module, so that no import can hide."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import opencompass_ext

PACKAGE = Path(opencompass_ext.__file__).parent
HEAVY = {"torch", "transformers", "datasets", "scipy", "accelerate", "pyarrow"}

# The command line and all it needs to plan a run.
LIGHT = {
    *("cli", "partitioners", "runners", "summarizers", "config", "schema", "catalog"),
    *("outputs", "registry", "records", "errors", "compat", "running", "predictions"),
    "python_process",
}


def layer_of(path: Path) -> str:
    """Return the sub-package or the module at the top level that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Return the full names of all that a file imports, at any depth, but not for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


MODULES = sorted(PACKAGE.rglob("*.py"))
FILES = {str(path.relative_to(PACKAGE)): path for path in MODULES}


def layers_used_by(path: Path) -> set[str]:
    ours = [name for name in imports_of(path) if name.startswith("opencompass_ext.")]
    return {name.split(".")[1] for name in ours} - {layer_of(path)}


@pytest.mark.parametrize("file", [f for f, path in FILES.items() if layer_of(path) in LIGHT])
def test_the_command_line_imports_nothing_heavy(file):
    assert {name.partition(".")[0] for name in imports_of(FILES[file])}.isdisjoint(HEAVY)


def test_only_models_import_transformers():
    users = {
        layer_of(path)
        for path in MODULES
        if any(name.partition(".")[0] == "transformers" for name in imports_of(path))
    }
    assert users == {"models"}


def uses() -> dict[str, set[str]]:
    graph = defaultdict(set)
    for path in MODULES:
        graph[layer_of(path)] |= layers_used_by(path)
    return graph


USES = uses()
BASE = {"checks", "digests", "errors", "locking", "records", "version", "writing"}
# What each layer may use besides itself and BASE; a layer that is not here may use all.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "records": set(),
    "checks": set(),
    "compat": set(),
    "digests": set(),
    "locking": set(),
    "writing": set(),
    "user_code": set(),
    "redact": set(),
    "endpoints": {"words"},
    "sentences": set(),
    "words": set(),
    "outputs": set(),
    "likelihood": set(),
    "metrics": set(),
    "config": {"redact"},
    "registry": {"compat", "user_code"},
    "prompting": {"registry"},
    "models": {"registry", "likelihood", "user_code", "endpoints", "datasets"},
    "datasets": {"registry", "predictions", "outputs"},
    "predictions": {"outputs", "redact"},
    "python_process": set(),
    "inferencers": {
        *("registry", "prompting", "models", "datasets", "predictions", "outputs", "likelihood"),
        "sentences",
    },
    "evaluators": {
        *("registry", "metrics", "judging", "datasets", "models", "sentences", "outputs"),
        "words",
    },
    "judging": {"registry", "outputs", "sentences", "endpoints", "redact"},
    "partitioners": {"registry", "outputs", "tasks", "datasets", "python_process"},
    "catalog": {"config"},
    "schema": {"config", "registry", "compat", "outputs", "datasets", "redact"},
}


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_uses_only_layers_below_it(layer):
    assert USES[layer] - BASE <= ALLOWED[layer]


def test_nothing_but_the_entry_points_uses_the_command_line():
    assert {layer for layer, used in USES.items() if "cli" in used} == {"__main__"}


def test_inferencers_and_evaluators_meet_only_in_files():
    assert "evaluators" not in USES["inferencers"]
    assert "inferencers" not in USES["evaluators"]


@pytest.mark.parametrize("file", FILES)
def test_only_devices_speaks_of_device_variables(file):
    if file == "runners/devices.py":
        return
    tree = ast.parse(FILES[file].read_text(encoding="utf-8"))
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    assert texts.isdisjoint({"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS"})


def test_modules_with_registered_classes_load_nothing_heavy():
    packages = sorted({layer_of(path) for path in MODULES if "register_module" in path.read_text()})
    packages.remove("registry")
    code = "import sys\n" + "".join(f"import opencompass_ext.{p}\n" for p in packages)
    code += f"print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(packages) >= 9
    assert done.stdout == "[]\n"
