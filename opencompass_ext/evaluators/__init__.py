"""Evaluators: from the columns of a predictions file to the metrics of a results file."""

from opencompass_ext.evaluators.average_ppl import AverageInferencePPLEvaluator
from opencompass_ext.evaluators.base import BaseEvaluator
from opencompass_ext.evaluators.geval import GEvalEvaluator
from opencompass_ext.evaluators.gptscore import GPTScoreEvaluator
from opencompass_ext.evaluators.pplqa import PPLqaEvaluator
from opencompass_ext.evaluators.pplqa_sanity import PPLqaSanityEvaluator
from opencompass_ext.evaluators.source_support import SourceSupportEvaluator
from opencompass_ext.evaluators.thelma import ThelmaEvaluator, ThelmaPairsEvaluator

__all__ = [
    "AverageInferencePPLEvaluator",
    "BaseEvaluator",
    "GEvalEvaluator",
    "GPTScoreEvaluator",
    "PPLqaEvaluator",
    "PPLqaSanityEvaluator",
    "SourceSupportEvaluator",
    "ThelmaEvaluator",
    "ThelmaPairsEvaluator",
]
