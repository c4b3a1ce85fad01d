"""Checks of what a config asks of an evaluator, before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opencompass_ext.checks import check_least
from opencompass_ext.errors import ConfigError


def check_resampling(seed: Any, resamples: Any = 1) -> None:
    """Check the seed of intervals, and how many resamples each is made of.

    Raises:
        ConfigError: ``seed`` is no whole number of at least 0, or ``resamples`` none of at least 1.
    """
    check_least(0, seed=seed)
    check_least(1, resamples=resamples)


def check_embedding_model(embedding_model: Any) -> None:
    """Check that ``embedding_model``, where it is given, says which model.

    Raises:
        ConfigError: It is no dict with a ``path``.
    """
    if embedding_model is None:
        return
    if not isinstance(embedding_model, Mapping) or "path" not in embedding_model:
        raise ConfigError(
            "embedding_model must be a dict with the 'path' of a model, such as dict(path=...); "
            f"got {embedding_model!r:.80}"
        )
