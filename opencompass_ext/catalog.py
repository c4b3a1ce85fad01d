"""Config files by name: ``--models``, ``--datasets``, ``--summarizer`` and ``list``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from opencompass_ext.config import load_config
from opencompass_ext.config.where import where
from opencompass_ext.errors import ConfigError, did_you_mean

KINDS = ("models", "datasets", "judges", "summarizers")


class Entry(NamedTuple):
    """A config file that can be asked for by name.

    Attributes:
        name: Its file name without ``.py``.
        summary: First line of its docstring, or empty.
        path: The file.
    """

    name: str
    summary: str
    path: Path


class Found(NamedTuple):
    """What was found under a name.

    Attributes:
        value: The list of models or datasets, or the summarizer.
        path: The file it came from.
    """

    value: Any
    path: Path


def list_entries(kind: str, folders: Sequence[Path]) -> list[Entry]:
    """Return the config files of ``kind`` below ``folders``, by name."""
    entries = [Entry(p.stem, _summary(p), p) for p in _files(kind, folders)]
    return sorted(entries, key=lambda entry: (entry.name, str(entry.path)))


def find_models(pattern: str, folders: Sequence[Path]) -> list[Found]:
    """Return the ``models`` of each file whose name matches ``pattern``.

    Args:
        pattern: A file name without ``.py``; ``*`` and ``?`` stand for several files.
        folders: Config folders, such as ``configs/``; the first that has the name is taken.

    Raises:
        ConfigError: No file matches, or a plain name matches several.
    """
    return [Found(_variable(path, "models"), path) for path in _match("models", pattern, folders)]


def find_datasets(pattern: str, folders: Sequence[Path]) -> list[Found]:
    """Return the data sets of each file whose name matches ``pattern``.

    They are all variables of the file that end in ``_datasets``; for ``name/suffix``, in suffix.

    Args, Raises: as ``find_models``.
    """
    name, _, suffix = pattern.partition("/")
    found = []
    for path in _match("datasets", name, folders):
        variables = load_config(path)
        lists = {k: v for k, v in variables.items() if k.endswith(suffix or "_datasets")}
        if not lists:
            raise ConfigError(
                f"{where(path)} has no variable that ends in {suffix or '_datasets'!r}: "
                + (did_you_mean(suffix, list(variables)) if variables else "it defines none")
            )
        for variable, datasets in lists.items():
            if not isinstance(datasets, list):
                raise ConfigError(f"{where(path)}: {variable} must be a list, got {datasets!r:.80}")
        found.append(Found([d for datasets in lists.values() for d in datasets], path))
    return found


def find_summarizer(name: str, folders: Sequence[Path]) -> Found:
    """Return the ``summarizer`` of the file with that name; for ``name/key``, the variable key.

    Args, Raises: as ``find_models``.
    """
    name, _, key = name.partition("/")
    paths = _match("summarizers", name, folders)
    if len(paths) > 1:
        raise _ambiguous("summarizers", name, paths)
    return Found(_variable(paths[0], key or "summarizer"), paths[0])


def _match(kind: str, pattern: str, folders: Sequence[Path]) -> list[Path]:
    for folder in folders:
        paths = [p for p in _files(kind, [folder]) if fnmatchcase(p.stem, pattern)]
        if len(paths) > 1 and not set("*?[") & set(pattern):
            raise _ambiguous(kind, pattern, paths)
        if paths:
            return paths
    looked = ", ".join(where(folder / kind) for folder in folders)
    names = sorted({p.stem for p in _files(kind, folders)})
    hint = did_you_mean(pattern, names) if names else "there are none"
    raise ConfigError(f"{kind}: unknown config {pattern!r} in {looked}: {hint}")


def _ambiguous(kind: str, name: str, paths: Sequence[Path]) -> ConfigError:
    listed = "\n".join(f"    {where(path)}" for path in paths)
    return ConfigError(
        f"{name!r} fits {len(paths)} configs of {kind}; rename, or read the one you mean in a "
        f"config file:\n{listed}"
    )


def _files(kind: str, folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(p for p in (folder / kind).rglob("*.py") if p.name != "__init__.py")


def _variable(path: Path, name: str) -> Any:
    variables = load_config(path)
    if name in variables:
        return variables[name]
    hint = did_you_mean(name, list(variables)) if variables else "it defines none"
    raise ConfigError(f"{where(path)} has no variable {name!r}: {hint}")


def _summary(path: Path) -> str:
    try:
        docstring = ast.get_docstring(ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return "(cannot be read)"
    return docstring.strip().splitlines()[0] if docstring and docstring.strip() else ""
