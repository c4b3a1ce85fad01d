"""What a config gets wrong is told when an evaluator is built, not when it scores."""

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.evaluators import (
    AverageInferencePPLEvaluator,
    GEvalEvaluator,
    GPTScoreEvaluator,
    PPLqaEvaluator,
    SourceSupportEvaluator,
)

RESAMPLING = [GEvalEvaluator, GPTScoreEvaluator, PPLqaEvaluator, SourceSupportEvaluator]


@pytest.mark.parametrize("evaluator", [*RESAMPLING, AverageInferencePPLEvaluator])
@pytest.mark.parametrize("seed", [-1, 0.5, True, "0"])
def test_a_seed_is_a_whole_number_from_0_up(evaluator, seed):
    with pytest.raises(ConfigError, match="seed must be a whole number of at least 0, got"):
        evaluator(seed=seed)


@pytest.mark.parametrize("evaluator", RESAMPLING)
@pytest.mark.parametrize("resamples", [0, -1, 1e3, None])
def test_resamples_are_at_least_one(evaluator, resamples):
    with pytest.raises(ConfigError, match="resamples must be a whole number of at least 1, got"):
        evaluator(resamples=resamples)


@pytest.mark.parametrize("evaluator", [PPLqaEvaluator, SourceSupportEvaluator])
@pytest.mark.parametrize("config", [{}, {"pth": "x"}, "x"])
def test_an_embedding_model_has_a_path(evaluator, config):
    with pytest.raises(ConfigError, match="embedding_model must be a dict with the 'path'"):
        evaluator(embedding_model=config)
