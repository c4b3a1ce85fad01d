"""Tasks: what a worker does with one model and one dataset at one stage."""

from opencompass_ext.tasks.base import BaseTask, ModelCache
from opencompass_ext.tasks.openicl_eval import OpenICLEvalTask
from opencompass_ext.tasks.openicl_infer import OpenICLInferTask

__all__ = ["BaseTask", "ModelCache", "OpenICLEvalTask", "OpenICLInferTask"]
