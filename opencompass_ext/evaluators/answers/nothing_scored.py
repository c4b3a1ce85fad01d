"""A score that no answer has is worth a word in the run, not only a null in its results."""

from __future__ import annotations

import logging

from opencompass_ext.evaluators.answers.predictors import Predictor
from opencompass_ext.words import listed

logger = logging.getLogger(__name__)


def warn_if_nothing_scored(primary: Predictor) -> None:
    """Warn when there are answers and none of them has a score, with the reasons."""
    lost = primary.null_reasons()
    if primary.scores and sum(lost.values()) == len(primary.scores):
        logger.warning(
            "none of the %d answers has a %s, so there is nothing to compare; reasons: %s",
            len(primary.scores),
            primary.name,
            listed(lost),
        )
