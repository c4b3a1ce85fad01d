"""Runners: where tasks are carried out."""

from opencompass_ext.runners.base import BaseRunner
from opencompass_ext.runners.local import LocalRunner

__all__ = ["BaseRunner", "LocalRunner"]
