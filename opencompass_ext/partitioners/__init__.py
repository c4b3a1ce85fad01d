"""Partitioners: how models and datasets are cut into tasks."""

from opencompass_ext.partitioners.base import BasePartitioner
from opencompass_ext.partitioners.naive import NaivePartitioner

__all__ = ["BasePartitioner", "NaivePartitioner"]
