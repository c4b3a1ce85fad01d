"""Models: anything that scores labelled texts."""

from opencompass_ext.models.base import BaseModel
from opencompass_ext.models.huggingface import HuggingFaceBaseModel
from opencompass_ext.models.scripted import ScriptedModel

__all__ = ["BaseModel", "HuggingFaceBaseModel", "ScriptedModel"]
