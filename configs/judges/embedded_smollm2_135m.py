"""A demo judge that runs locally: SmolLM2-135M. Too small to be trusted."""

from opencompass_ext.judging import LocalJudge
from opencompass_ext.models import HuggingFacewithChatTemplate

judge = dict(
    type=LocalJudge,
    model=dict(type=HuggingFacewithChatTemplate, path="embedded:smollm2-135m-instruct"),
    # A model this small writes no usable lists of units; its verdicts compare likelihoods.
    units="sentences",
)
