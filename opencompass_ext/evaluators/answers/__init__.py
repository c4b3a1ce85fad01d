"""What all evaluators of answers share: systems, agreement with people, confounds."""

from opencompass_ext.evaluators.answers.details import answer_details
from opencompass_ext.evaluators.answers.predictors import Predictor
from opencompass_ext.evaluators.answers.results import answer_results
from opencompass_ext.evaluators.answers.rows import AnswerRow, read_part, read_reason, read_rows

__all__ = [
    "AnswerRow",
    "Predictor",
    "answer_details",
    "answer_results",
    "read_part",
    "read_reason",
    "read_rows",
]
