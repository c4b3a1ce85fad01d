"""The text of config files: its syntax tree, and where in it a key is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from opencompass_ext.config.bases import find_base, take_read_base
from opencompass_ext.config.where import where
from opencompass_ext.errors import ConfigError


def parse_config(path: Path) -> ast.Module:
    """Return the syntax tree of a config file.

    Raises:
        ConfigError: The file cannot be read or is not valid Python.
    """
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from error
    except SyntaxError as error:
        line = f"\n    {error.text.strip()}" if error.text and error.text.strip() else ""
        raise ConfigError(f"{where(path, error.lineno)}: {error.msg}{line}") from error
    except ValueError as error:  # a null byte, before Python 3.12
        raise ConfigError(f"{where(path)}: not Python source: {error}") from error


def locate(key_path: str, trees: Iterable[tuple[Path, ast.Module]]) -> str | None:
    """Return ``file:line`` where a key of a config is written, or None if that is not clear.

    Args:
        key_path: Such as ``models[0].run_cfg.num_gpu``.
        trees: The files to search, see ``source_trees``.
    """
    names = re.findall(r"[^.\[\]]+", re.sub(r"\[\d+\]", "", key_path))
    return find_key(trees, names[-1], inside=names[-2] if len(names) > 1 else None)


def source_trees(path: Path) -> list[tuple[Path, ast.Module]]:
    """Return the syntax trees of a config that loads, and of the files it reads."""
    return list(_source_trees((path,)).items())


def _source_trees(importers: tuple[Path, ...]) -> dict[Path, ast.Module]:
    path = importers[-1]
    tree = parse_config(path)
    trees = {path: tree}
    for node in take_read_base(tree, path):
        trees.update(_source_trees((*importers, find_base(node, importers))))
    return trees


class _WrittenKey(NamedTuple):
    key: str
    inside: str | None  # the key whose value holds this one, as far as the text shows it
    line: int


def find_key(trees: Iterable[tuple[Path, ast.Module]], key: str, inside: str | None) -> str | None:
    r"""Return ``file:line`` of the one place where ``key`` is written, or None if it is not one.

    Args:
        trees: Config files and their syntax trees.
        key: ``num_gpu`` of ``dict(num_gpu=1)``, ``{"num_gpu": 1}`` or ``cfg["num_gpu"] = 1``.
        inside: The key around it, such as ``run_cfg``; tells apart places of one name.

    Example:
        >>> tree = ast.parse("run_cfg = dict(num_gpu=1)\nother = dict(num_gpu=2)")
        >>> find_key([(Path("c.py"), tree)], "num_gpu", inside="run_cfg")
        'c.py:1'
    """
    found = [
        (where(path, written.line), written.inside)
        for path, tree in trees
        for written in _written_keys(tree, None)
        if written.key == key
    ]
    if len(found) > 1:
        found = [f for f in found if f[1] == inside]
    places = {place for place, _ in found}
    return places.pop() if len(places) == 1 else None


def loop_variables(tree: ast.Module) -> set[str]:
    """Return the names that ``for`` statements bind; they outlive their loop.

    Example:
        >>> sorted(loop_variables(ast.parse("for i, model in enumerate(models): pass")))
        ['i', 'model']
    """
    return {
        name.id
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For)
        for name in ast.walk(loop.target)
        if isinstance(name, ast.Name)
    }


def _written_keys(node: ast.AST, inside: str | None) -> Iterator[_WrittenKey]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword) and child.arg:
            yield _WrittenKey(child.arg, inside, child.lineno)
            yield from _written_keys(child, child.arg)
        elif isinstance(child, ast.Dict):
            for key, value in zip(child.keys, child.values, strict=True):
                name = _text(key)
                if key is not None and name is not None:
                    yield _WrittenKey(name, inside, key.lineno)
                yield from _written_keys(ast.Expr(value), name or inside)
        elif isinstance(child, ast.Assign):
            names = [name for target in child.targets if (name := _assigned_key(target))]
            for name in names:
                yield _WrittenKey(name, inside, child.lineno)
            yield from _written_keys(ast.Expr(child.value), names[0] if names else inside)
        else:
            yield from _written_keys(child, inside)


def _assigned_key(target: ast.expr) -> str | None:
    """Return ``k`` of the targets ``k``, ``cfg["k"]`` and ``cfg.k``."""
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        return target.attr
    return _text(target.slice) if isinstance(target, ast.Subscript) else None


def _text(node: ast.expr | None) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None
