"""Where a data file lies: at the path given, or among the files shipped with the package."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from opencompass_ext.errors import DataError

_PACKAGE = Path(__file__).resolve().parent.parent


def shipped_root() -> Path:
    """Return the folder that holds ``data/``: the package when installed, else the checkout."""
    return _PACKAGE if (_PACKAGE / "data").is_dir() else _PACKAGE.parent


def find_data_file(path: str, name: str | None, extensions: Sequence[str]) -> Path:
    """Return the data file that ``path`` and ``name`` stand for.

    A relative path is looked up below the current folder first, then among the files shipped with
    the package, so ``data/gsm8k/gsm8k.jsonl`` works from anywhere.

    Args:
        path: A file; or, with ``name``, the folder it lies in.
        name: File name below ``path``, with or without its extension.
        extensions: Extensions to try after ``name``, such as ``[".jsonl", ".jsonl.gz"]``.

    Raises:
        DataError: No such file, with the places tried and near names; a folder without ``name``;
            or several files that ``name`` fits.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise DataError(f"path must be the path of a file or folder, got {path!r}")
    bases = _bases(os.path.expanduser(path))
    if name is None:
        for base in bases:
            if os.path.isfile(base):
                return base
        for base in bases:
            if os.path.isdir(base):
                raise DataError(
                    f"{base} is a folder: say which file of it with name='...'; "
                    f"it holds {_listing(base)}"
                )
        raise _not_found(path, bases)
    if not isinstance(name, str):
        raise DataError(f"name must be the name of one file in {str(path)!r}, got {name!r}")
    for base in bases:
        fitting = [f for f in (base / f"{name}{e}" for e in ("", *extensions)) if os.path.isfile(f)]
        if len(fitting) > 1:
            raise DataError(
                f"name={name!r} fits several files in {base}: "
                f"{', '.join(f.name for f in fitting)}; give the name with its extension"
            )
        if fitting:
            return fitting[0]
    raise _not_found(f"{path}/{name}", [base / f"{name}{extensions[0]}" for base in bases])


def _bases(path: str) -> list[Path]:
    given = Path(path)
    if given.is_absolute():
        return [given]
    # Without duplicates: in the checkout both are the same folder.
    return list(dict.fromkeys([Path.cwd() / given, shipped_root() / given]))


def _not_found(wanted: str, tried: Sequence[Path]) -> DataError:
    places = " and ".join(str(path) for path in tried)
    return DataError(f"no data file {wanted!r}: looked for {places}; {_hint(tried)}")


def _hint(tried: Sequence[Path]) -> str:
    for path in tried:
        if near := _near(path):
            return f"did you mean {near} in {path.parent}?"
    for path in tried:
        if path.parent.is_dir():
            return f"{path.parent} holds {_listing(path.parent)}"
    missing = tried[0].parent
    while not missing.parent.is_dir():
        missing = missing.parent
    near = _near(missing)
    return f"the folder {missing} does not exist" + (f": did you mean {near}?" if near else "")


def _near(path: Path) -> str:
    """Return the names beside ``path`` that are most like its own; an extension says nothing."""
    named: dict[str, list[str]] = {}
    for entry in _entries(path.parent):
        named.setdefault(Path(entry).stem, []).append(entry)
    stems = difflib.get_close_matches(path.stem, named, n=3, cutoff=0.6)
    return " or ".join(repr(entry) for stem in stems for entry in named[stem])


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _listing(folder: Path, at_most: int = 10) -> str:
    names = _entries(folder)
    if not names:
        return "nothing"
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
