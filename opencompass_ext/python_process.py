"""How another Python process of this package is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package with this interpreter."""
    # Without -P the current folder comes first, and a file random.py there would break the process.
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` changed so that the process can import what this one can.

    That includes a module beside the user's script.
    """
    path = os.pathsep.join(dict.fromkeys(os.path.abspath(entry) for entry in sys.path))
    return {**environment, "PYTHONPATH": path}
