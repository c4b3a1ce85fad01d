"""From a command line to an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from opencompass_ext.cli.inspecting import list_command, validate_command
from opencompass_ext.cli.run import run_command
from opencompass_ext.cli.streams import closed_pipes_ignored
from opencompass_ext.errors import ConfigError, OpenCompassExtError
from opencompass_ext.running.signals import terminated_like_ctrl_c

_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "list": list_command,
    "validate": validate_command,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Args:
        argv: The arguments without the program's name; those of this process when None.

    Returns:
        0 when all went well, 1 when a task failed, 2 for a mistake in the config or the command
        line, 130 when interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    with closed_pipes_ignored(), terminated_like_ctrl_c():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        if arguments and arguments[0] in _COMMANDS:
            return _COMMANDS[arguments[0]](arguments[1:])
        return run_command(arguments)
    except OpenCompassExtError as error:
        _tell(str(error))
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        # A run that has begun tells itself how to go on.
        print("interrupted", file=sys.stderr)
        return 130


def _tell(error: str) -> None:
    in_color = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    red, plain = ("\033[31m", "\033[0m") if in_color else ("", "")
    print(f"{red}error:{plain} {error}", file=sys.stderr)
