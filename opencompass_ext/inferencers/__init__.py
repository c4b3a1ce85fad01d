"""Inferencers: rows in, one prediction a row out."""

from opencompass_ext.inferencers.generation import GenInferencer
from opencompass_ext.inferencers.inference_ppl import InferencePPLOnlyInferencer

__all__ = ["GenInferencer", "InferencePPLOnlyInferencer"]
