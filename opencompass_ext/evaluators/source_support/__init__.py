"""Source support as an evaluator: from two readings of each response to metrics and evidence."""

from opencompass_ext.evaluators.source_support.evaluator import SourceSupportEvaluator

__all__ = ["SourceSupportEvaluator"]
