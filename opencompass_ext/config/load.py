"""Reading a config file into plain data."""

from __future__ import annotations

import ast
import difflib
import os
import traceback
from pathlib import Path
from typing import Any

from opencompass_ext.config.bases import find_base, take_read_base
from opencompass_ext.config.names import PLACEHOLDER_CLASS, NamedObject, name_imports
from opencompass_ext.config.plain import NotDataError, plain_config
from opencompass_ext.config.source import locate, parse_config, source_trees
from opencompass_ext.config.where import where
from opencompass_ext.errors import ConfigError, did_you_mean


def load_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the variables of a config file as plain JSON values.

    The file is Python: it runs, so lists can be built in loops and values read from
    ``os.environ``. Names of other config files are imported inside ``with read_base():``, and
    files in mmengine's older style (``_base_ = [...]``) work too. Imports from outside the
    standard library are not carried out: a class given as ``type`` becomes its dotted path.

    Left out of the result are names that begin with ``_``, imported names, and helpers that are
    not data, such as functions. Tuples become lists.

    Raises:
        ConfigError: The file or one it reads is missing, is not valid Python, raises an error, or
            holds a value that is not data. The text names file and line, or the key path.
    """
    path = Path(path).expanduser().absolute()
    _require_python_file(path)
    if _uses_old_style(parse_config(path)):
        variables = _read_old_style(path)
    else:
        variables, imported = _read(path, (path,))
        variables = {k: v for k, v in variables.items() if k not in imported}
    try:
        return plain_config(variables)
    except NotDataError as error:
        place = locate(error.key_path, source_trees(path)) or where(path)
        raise ConfigError(f"{place}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{where(path)}: a list or dict in it contains itself") from error


def _read(path: Path, importers: tuple[Path, ...]) -> tuple[dict[str, Any], set[str]]:
    """Return all variables of a config file, and the names among them that imports bound."""
    tree = parse_config(path)
    if _uses_old_style(tree):
        raise ConfigError(
            f"{where(path)}: a file with '_base_ = ...' cannot be read by one with "
            "'with read_base():': write both in the same style"
        )
    namespace: dict[str, Any] = {
        "__name__": "__config__",
        "__file__": str(path),
        PLACEHOLDER_CLASS: NamedObject,
    }
    for node in take_read_base(tree, path):
        base = find_base(node, importers)
        if base in importers:
            raise ConfigError(
                f"{where(path, node.lineno)}: a circle: {where(base)} is being read already"
            )
        variables, _ = _read(base, (*importers, base))
        namespace.update(_pick(node, variables, path, base))
    imported = name_imports(tree, path)
    _execute(tree, namespace, path)
    return {k: v for k, v in namespace.items() if not k.startswith("__")}, imported


def _pick(
    node: ast.ImportFrom, variables: dict[str, Any], importer: Path, base: Path
) -> dict[str, Any]:
    # A config may use attributes (models[0].run_cfg.num_gpus = 2) on what it reads from a base.
    from mmengine.config import ConfigDict

    wrapped = ConfigDict(variables)
    picked = {}
    for alias in node.names:
        if alias.name == "*":
            picked.update({k: wrapped[k] for k in variables})
        elif alias.name in variables:
            picked[alias.asname or alias.name] = wrapped[alias.name]
        else:
            names = sorted(k for k in variables if not k.startswith("_"))
            raise ConfigError(
                f"{where(importer, node.lineno)}: {where(base)} has no variable {alias.name!r}: "
                + (did_you_mean(alias.name, names) if names else "it defines none")
            )
    return picked


def _execute(tree: ast.Module, namespace: dict[str, Any], path: Path) -> None:
    try:
        exec(compile(tree, str(path), "exec"), namespace)
    except (Exception, SystemExit) as error:
        raise _located(error, path) from error


def _located(error: BaseException, path: Path) -> ConfigError:
    """Return what a config raised as a ConfigError that says where it happened."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    place = where(path, lines[-1] if lines else None)
    if isinstance(error, SyntaxError):
        return ConfigError(f"{error.filename or path}:{error.lineno}: {error.msg}")
    # The module os is frozen into some interpreters and a file for others.
    if isinstance(error, KeyError) and frames[-1].filename in ("<frozen os>", os.__file__):
        return ConfigError(f"{place}: the environment variable {error.args[0]!r} is not set")
    text = f": {error}" if str(error) else ""
    return ConfigError(f"{place}: {type(error).__name__}{text}")


def _uses_old_style(tree: ast.Module) -> bool:
    return any(
        isinstance(target, ast.Name) and target.id == "_base_"
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
    )


def _read_old_style(path: Path) -> dict[str, Any]:
    from mmengine.config import Config

    try:
        return Config.fromfile(path, lazy_import=False).to_dict()
    except ImportError as error:
        located = _located(error, path)
        raise ConfigError(
            f"{located}. A config with '_base_ = ...' really imports what it names; inside "
            "'with read_base():' style configs a class need not be installed to be named"
        ) from error
    except (Exception, SystemExit) as error:
        raise _located(error, path) from error


def _require_python_file(path: Path) -> None:
    if path.is_file() and path.suffix == ".py":
        return
    if path.is_file():
        raise ConfigError(f"a config is a Python file (.py), got {path}")
    if path.is_dir():
        raise ConfigError(f"a config is a Python file, and {path} is a folder")
    if not path.parent.is_dir():
        raise ConfigError(f"no config file {path}: the folder {path.parent} does not exist")
    # Compared without '.py', in which all of them are alike.
    neighbours = {p.stem: p.name for p in sorted(path.parent.glob("*.py"))}
    near = [neighbours[stem] for stem in difflib.get_close_matches(path.stem, neighbours)]
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "the file does not exist"
    raise ConfigError(f"no config file {path}: {hint}")
