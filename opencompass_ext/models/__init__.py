"""Models: anything that scores labelled texts or answers prompts."""

from opencompass_ext.models.base import BaseModel
from opencompass_ext.models.completions_api import OpenAICompletionsModel
from opencompass_ext.models.huggingface import HuggingFaceBaseModel, HuggingFacewithChatTemplate
from opencompass_ext.models.recorded import RecordedModel
from opencompass_ext.models.scripted import ScriptedModel
from opencompass_ext.models.vllm import VLLMModel

__all__ = [
    "BaseModel",
    "HuggingFaceBaseModel",
    "HuggingFacewithChatTemplate",
    "OpenAICompletionsModel",
    "RecordedModel",
    "ScriptedModel",
    "VLLMModel",
]
