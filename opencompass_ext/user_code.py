"""Where a user's own modules are looked for: in this process and in every worker it starts.

A config may name a class of the user's own, ``type='my_module.MyDataset'``. Its module lies beside
the config or in the working folder, neither of which is on ``sys.path`` of a console script, or of
a worker process. The folders travel in an environment variable, because every way of starting a
worker hands the environment on. They go to the *end* of ``sys.path``: a file ``datasets.py``
beside a config must not hide the package of that name.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from opencompass_ext.errors import ConfigError, did_you_mean

FOLDERS_VARIABLE = "OPENCOMPASS_EXT_USER_FOLDERS"


def allow_imports_from(folders: Iterable[Path]) -> None:
    """Let this process and the workers it starts import the modules in ``folders``."""
    known = user_folders()
    known += [str(f.absolute()) for f in folders if str(f.absolute()) not in known]
    os.environ[FOLDERS_VARIABLE] = os.pathsep.join(known)


def user_folders() -> list[str]:
    """Return the folders given to ``allow_imports_from``, here or in the process above."""
    return [f for f in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if f]


def import_class(dotted_path: str, kind: str) -> type:
    """Return the class at ``dotted_path``.

    Args:
        dotted_path: Such as ``"my_module.MyDataset"``.
        kind: What the class is, for errors.

    Raises:
        ConfigError: There is no such module or class, or importing the module fails.

    Example:
        >>> import_class("collections.OrderedDict", "dataset").__name__
        'OrderedDict'
    """
    sys.path += [f for f in user_folders() if f not in sys.path]
    module_name, _, name = dotted_path.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        looked = ", ".join(user_folders()) or "no folder of yours"
        raise ConfigError(
            f"cannot import the {kind} type {dotted_path!r}: {error}. Looked among the installed "
            f"packages and in {looked}"
        ) from error
    except Exception as error:
        raise ConfigError(
            f"cannot import the {kind} type {dotted_path!r}: {type(error).__name__}: {error}"
        ) from error
    found = getattr(module, name, None)
    if isinstance(found, type):
        return found
    if found is not None:
        raise ConfigError(f"the {kind} type {dotted_path!r} is no class but {found!r}")
    classes = [n for n, value in vars(module).items() if isinstance(value, type)]
    hint = did_you_mean(name, classes) if classes else "it defines no class"
    raise ConfigError(f"the module {module.__file__} has no class {name!r}: {hint}")
