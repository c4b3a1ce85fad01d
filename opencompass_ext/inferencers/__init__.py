"""Inferencers: rows in, one prediction a row out."""

from opencompass_ext.inferencers.generation import GenInferencer
from opencompass_ext.inferencers.geval import GEvalInferencer
from opencompass_ext.inferencers.gptscore import GPTScoreInferencer
from opencompass_ext.inferencers.inference_ppl import InferencePPLOnlyInferencer
from opencompass_ext.inferencers.pplqa import PPLqaInferencer
from opencompass_ext.inferencers.source_support import SourceSupportInferencer

__all__ = [
    "GEvalInferencer",
    "GPTScoreInferencer",
    "GenInferencer",
    "InferencePPLOnlyInferencer",
    "PPLqaInferencer",
    "SourceSupportInferencer",
]
