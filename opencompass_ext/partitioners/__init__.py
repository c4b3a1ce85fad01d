"""Partitioners: how models and datasets are cut into tasks."""

from opencompass_ext.partitioners.base import BasePartitioner
from opencompass_ext.partitioners.naive import NaivePartitioner
from opencompass_ext.partitioners.num_worker import NumWorkerPartitioner
from opencompass_ext.partitioners.size import SizePartitioner

__all__ = ["BasePartitioner", "NaivePartitioner", "NumWorkerPartitioner", "SizePartitioner"]
