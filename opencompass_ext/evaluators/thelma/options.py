"""Checks of what a config asks of THELMA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.checks import check_least
from opencompass_ext.errors import ConfigError, did_you_mean
from opencompass_ext.judging.prompts.templates import load_templates
from opencompass_ext.metrics.thelma import METRICS
from opencompass_ext.registry import JUDGES


def chosen_metrics(metrics: str | Sequence[str]) -> tuple[str, ...]:
    """Return the metrics asked for, in the order of ``METRICS``.

    Raises:
        ConfigError: There is no such metric, or none is asked for.

    Example:
        >>> chosen_metrics(["groundedness", "response_precision"])
        ('response_precision', 'groundedness')
    """
    if metrics == "all":
        return METRICS
    if isinstance(metrics, str) or not metrics:
        raise ConfigError(f"metrics must be 'all' or a list of names, got {metrics!r}")
    for name in metrics:
        if name not in METRICS:
            raise ConfigError(f"THELMA has no metric {name!r}: {did_you_mean(str(name), METRICS)}")
    return tuple(name for name in METRICS if name in metrics)


def check_judge(judge_cfg: Any) -> None:
    """Check that ``judge_cfg`` can be the config of a judge.

    Raises:
        ConfigError: It is no dict with a ``type``.
    """
    if not isinstance(judge_cfg, Mapping) or "type" not in judge_cfg:
        raise ConfigError(
            "judge_cfg must be a dict with a 'type', such as dict(type='EndpointJudge', url=..., "
            f"model=...); got {judge_cfg!r:.80}"
        )


def check_asking(
    judge_cfg: Mapping[str, Any], lang: str, units_per_call: Any, *, soft: Any
) -> None:
    """Check what is asked, and how, before a response is generated for it.

    Raises:
        ConfigError: There is no such language, a template is missing or wrong, no unit may be
            asked about, or the judge gives no probabilities and ``soft`` wants them.
        MissingDependencyError: A package of the extra ``judge`` is missing.
    """
    load_templates(lang)
    check_least(1, units_per_call=units_per_call)
    judge_class = JUDGES.get(judge_cfg["type"])
    if soft and not getattr(judge_class, "answers_by_likelihood", False):
        raise ConfigError(
            f"soft=True averages probabilities, and {judge_class.__name__} gives none: use "
            "soft=False, or a judge that answers by likelihood, such as LocalJudge"
        )


def check_similarity(similarity: str, embedding_model: Mapping[str, Any] | None) -> None:
    """Check that an embedding model is given where it is used, and only there.

    Raises:
        ConfigError: It is not.
    """
    if similarity not in ("judge", "embedding"):
        raise ConfigError(f"similarity must be 'judge' or 'embedding', got {similarity!r}")
    if similarity == "embedding" and "path" not in (embedding_model or {}):
        raise ConfigError("similarity='embedding' needs embedding_model=dict(path=...)")
    if similarity == "judge" and embedding_model:
        raise ConfigError("embedding_model is used with similarity='embedding' only")


def check_shares(**shares: Any) -> None:
    """Check that each value is a number from 0 to 1.

    Raises:
        ConfigError: One is not.
    """
    for name, value in shares.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= 1:
            raise ConfigError(f"{name} must be a number from 0 to 1, got {value!r}")
