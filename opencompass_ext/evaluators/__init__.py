"""Evaluators: from the columns of a predictions file to the metrics of a results file."""

from opencompass_ext.evaluators.average_ppl import AverageInferencePPLEvaluator
from opencompass_ext.evaluators.base import BaseEvaluator

__all__ = ["AverageInferencePPLEvaluator", "BaseEvaluator"]
