"""THELMA: a RAG system judged by query, sources and response."""

from opencompass_ext.evaluators.thelma.evaluator import ThelmaEvaluator

__all__ = ["ThelmaEvaluator"]
