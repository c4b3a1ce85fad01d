"""Which file a line inside ``with read_base():`` means.

mmengine takes an absolute import to be a path inside an *installed* package. Here a folder beside
the config or in the working folder will do as well, and ``opencompass.configs`` needs no
OpenCompass: a file that an installed one lacks is taken from the configs of this package.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import opencompass_ext
from opencompass_ext.config.names import is_read_base
from opencompass_ext.config.where import where
from opencompass_ext.errors import ConfigError


def packaged_configs() -> Path:
    """Return the folder of the configs that come with this package.

    They lie beside the package in a checkout, and inside it once installed.
    """
    package = Path(opencompass_ext.__file__).parent
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def take_read_base(tree: ast.Module, path: Path) -> list[ast.ImportFrom]:
    """Remove the ``read_base`` blocks from ``tree`` and return the imports inside them.

    Raises:
        ConfigError: Something other than ``from ... import ...`` stands in a block.
    """
    imports: list[ast.ImportFrom] = []
    for block in [node for node in tree.body if is_read_base(node)]:
        assert isinstance(block, ast.With)
        for node in block.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                imports.append(node)
            elif not isinstance(node, ast.Pass):
                raise ConfigError(
                    f"{where(path, node.lineno)}: inside 'with read_base():' only "
                    f"'from <config file> import <names>' may stand, got {ast.unparse(node)!r}"
                )
        tree.body.remove(block)
    return imports


def find_base(node: ast.ImportFrom, importers: tuple[Path, ...]) -> Path:
    """Return the config file that ``from <module> import ...`` names.

    Args:
        node: An import from a ``read_base`` block.
        importers: The chain of files that led here: the config the user named first, the file
            that holds ``node`` last.

    Raises:
        ConfigError: No such file; the text lists every place looked at.
    """
    tried = []
    for candidate in _candidates(node, importers):
        if candidate.is_file():
            return candidate
        tried.append(candidate)
    looked = "\n".join(f"    {path}" for path in tried)
    raise ConfigError(
        f"{where(importers[-1], node.lineno)}: no config file for "
        f"'from {'.' * node.level}{node.module} import ...'. Looked for\n{looked}"
    )


def _candidates(node: ast.ImportFrom, importers: tuple[Path, ...]) -> Iterator[Path]:
    parts = (node.module or "").split(".")
    relative = Path(*parts).with_suffix(".py")
    folder = importers[-1].parent
    if node.level:
        yield folder.joinpath(*[".."] * (node.level - 1)).resolve() / relative
        return
    if parts[:2] == ["opencompass_ext", "configs"]:
        yield packaged_configs().joinpath(*parts[2:]).with_suffix(".py")
        return
    # Nearest first, the order in which a reader would look.
    folders = [*importers[-1].parents, *importers[0].parents, Path.cwd()]
    for folder in dict.fromkeys(folders):
        yield folder / relative
    for folder in _installed_folders(parts[0]):
        yield folder.joinpath(*parts[1:]).with_suffix(".py")
    if parts[:2] == ["opencompass", "configs"]:
        yield packaged_configs().joinpath(*parts[2:]).with_suffix(".py")


def _installed_folders(package: str) -> list[Path]:
    """Return the folders of an installed package, found without importing it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [Path(folder) for folder in spec.submodule_search_locations]
