"""Replays the responses in the data set itself; no model is loaded."""

from opencompass_ext.models import RecordedModel

models = [dict(type=RecordedModel, abbr="recorded", run_cfg=dict(num_gpus=0))]
