"""A judge for trying things out: SmolLM2-135M on this machine. Too small to be trusted."""

from opencompass_ext.judging import LocalJudge
from opencompass_ext.models import HuggingFacewithChatTemplate

judge = dict(
    type=LocalJudge,
    model=dict(type=HuggingFacewithChatTemplate, path="embedded:smollm2-135m-instruct"),
    # So small a model writes no usable lists; its verdicts compare likelihoods and need none.
    units="sentences",
)
