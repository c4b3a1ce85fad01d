"""Runners: where tasks are carried out."""

from opencompass_ext.runners.base import BaseRunner
from opencompass_ext.runners.local import LocalRunner
from opencompass_ext.runners.ray import RayRunner
from opencompass_ext.runners.slurm import SlurmRunner

__all__ = ["BaseRunner", "LocalRunner", "RayRunner", "SlurmRunner"]
