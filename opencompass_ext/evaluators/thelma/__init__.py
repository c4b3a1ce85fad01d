"""THELMA: a RAG system judged by query, sources and response."""

from opencompass_ext.evaluators.thelma.evaluator import ThelmaEvaluator
from opencompass_ext.evaluators.thelma.pairs import ThelmaPairsEvaluator

__all__ = ["ThelmaEvaluator", "ThelmaPairsEvaluator"]
