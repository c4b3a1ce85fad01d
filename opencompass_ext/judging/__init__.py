"""Judges: what they are asked, who answers, and the record of it.

``JudgeSession`` in ``judging.session`` is what evaluators use; it needs the extra ``judge``.
"""

from opencompass_ext.judging.base import BaseJudge
from opencompass_ext.judging.endpoint import EndpointJudge
from opencompass_ext.judging.local import LocalJudge
from opencompass_ext.judging.questions import Decompose, Decomposition, Match, Source, Verdict
from opencompass_ext.judging.scripted import ScriptedJudge

__all__ = [
    "BaseJudge",
    "Decompose",
    "Decomposition",
    "EndpointJudge",
    "LocalJudge",
    "Match",
    "ScriptedJudge",
    "Source",
    "Verdict",
]
