"""The command line: ``python run.py``, ``python -m opencompass_ext``, ``opencompass-ext``."""

from opencompass_ext.cli.app import main

__all__ = ["main"]
