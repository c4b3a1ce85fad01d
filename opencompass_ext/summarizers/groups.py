"""Averages over data sets: ``summary_groups`` of a summarizer config."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opencompass_ext.errors import ConfigError, did_you_mean
from opencompass_ext.summarizers.results import PairResults

# The key that asks for it -> what the metric is then called, as in OpenCompass.
_OPERATIONS = {"std": "standard_deviation", "sum": "sum", "harmonic_mean": "harmonic_mean"}
_KEYS = ("name", "subsets", "weights", "metric", *_OPERATIONS)


@dataclass(frozen=True, slots=True)
class Group:
    """One number out of several data sets.

    Attributes:
        name: Name in the dataset column.
        members: Data set or earlier group, and its metric; None is its first metric.
        operation: ``naive_average``, ``weighted_average``, ``sum``, ``standard_deviation`` (of the
            population) or ``harmonic_mean``.
        weights: Weight of each member, in order.
        metric: Name in the metric column. Members that all report a metric of this name are
            combined by it, others by their first metric.
    """

    name: str
    members: tuple[tuple[str, str | None], ...]
    operation: str
    weights: tuple[float, ...]
    metric: str

    def chosen(self, first_metrics: Mapping[str, Sequence[str]]) -> list[tuple[str, str | None]]:
        """Return each member with the metric that is combined.

        Args:
            first_metrics: Data set or group -> its metrics, the first one first.
        """
        is_shared = all(self.metric in first_metrics.get(name, ()) for name, _ in self.members)
        chosen = []
        for name, metric in self.members:
            known = first_metrics.get(name, ())
            chosen.append((name, metric or (self.metric if is_shared else next(iter(known), None))))
        return chosen


def read_group(config: Mapping[str, Any]) -> Group:
    """Return the group that a config describes.

    Args:
        config: ``name``, ``subsets`` (names, or ``[name, metric]``), and optionally ``weights``
            (by name, or by ``name@metric``), ``metric``, and one of ``std``, ``sum`` and
            ``harmonic_mean`` set to True.

    Raises:
        ConfigError: A key is unknown, missing or of the wrong form, or the weights do not fit.
    """
    where = f"summary group {config.get('name', '')!r}"
    for key in config:
        if key not in _KEYS:
            raise ConfigError(f"{where} has no key {key!r}: {did_you_mean(key, _KEYS)}")
    if not isinstance(config.get("metric") or "", str):
        raise ConfigError(f"{where}: metric must be a text, got {config['metric']!r}")
    if not isinstance(config.get("name"), str):
        raise ConfigError(f"a summary group needs the key 'name', a text; got {dict(config)!r}")
    members = _members(where, config.get("subsets"))
    operations = [key for key in _OPERATIONS if config.get(key)]
    if len(operations) > 1:
        raise ConfigError(f"{where}: choose one of {', '.join(operations)}")
    weights = config.get("weights") or None
    if weights is not None and operations and operations[0] != "sum":
        raise ConfigError(f"{where}: weights do not apply to {operations[0]!r}")
    plain = "naive_average" if weights is None else "weighted_average"
    operation = _OPERATIONS[operations[0]] if operations else plain
    return Group(
        name=config["name"],
        members=members,
        operation=operation,
        weights=_weights(where, members, weights),
        metric=config.get("metric") or operation,
    )


def combine(
    group: Group, results: Mapping[str, PairResults], metrics: Mapping[str, Sequence[str]]
) -> PairResults:
    """Return the group's result of one model; a group with a member missing has no value.

    Args:
        group: The group.
        results: Data set or earlier group -> results of the model.
        metrics: Data set or earlier group -> its metrics, the first one first.
    """
    values, missing, without_value = [], [], []
    for name, metric in group.chosen(metrics):
        member = results.get(name)
        if member is None or metric is None or metric not in member.metrics:
            missing.append(name if metric is None else f"{name} {metric}")
        elif (value := member.metrics[metric]) is None:
            without_value.append(f"{name} {metric}")
        else:
            values.append(value)
    if missing:
        return PairResults(missing_members=tuple(missing))
    if without_value:
        reason = f"no value of {', '.join(without_value)}"
        return PairResults(metrics={group.metric: None}, reasons={group.metric: reason})
    try:
        value, problem = _apply(group.operation, values, group.weights)
    except OverflowError:
        value, problem = math.inf, None
    if value is not None and not math.isfinite(value):
        value, problem = None, "too_large_for_a_float"
    reasons = {} if problem is None else {group.metric: problem}
    return PairResults(metrics={group.metric: value}, reasons=reasons)


def _apply(
    operation: str, values: Sequence[float], weights: Sequence[float]
) -> tuple[float | None, str | None]:
    weighted = math.fsum(value * weight for value, weight in zip(values, weights, strict=True))
    if operation == "sum":
        return weighted, None
    if operation == "harmonic_mean":
        if min(values) <= 0:
            return None, "a harmonic mean needs values above 0"
        return len(values) / math.fsum(1 / value for value in values), None
    mean = weighted / math.fsum(weights)
    if operation == "standard_deviation":
        return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values)), None
    return mean, None


def _members(where: str, subsets: object) -> tuple[tuple[str, str | None], ...]:
    members: list[tuple[str, str | None]] = []
    for item in subsets if isinstance(subsets, (list, tuple)) else ():
        if isinstance(item, str):
            members.append((item, None))
        elif (
            isinstance(item, (list, tuple))
            and len(item) == 2
            and all(isinstance(part, str) for part in item)
        ):
            members.append((item[0], item[1]))
        else:
            raise ConfigError(
                f"{where}: a subset is the abbr of a dataset, or [abbr, metric]; got {item!r}"
            )
    if not members:
        raise ConfigError(f"{where} needs the key 'subsets', a list of datasets; got {subsets!r}")
    return tuple(members)


def _weights(
    where: str, members: Sequence[tuple[str, str | None]], weights: Mapping[str, float] | None
) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * len(members)
    if not isinstance(weights, Mapping):
        raise ConfigError(f"{where}: weights must be a dict of numbers by name, got {weights!r}")
    names = [(name, f"{name}@{metric}") for name, metric in members]
    known = [name for pair in names for name in pair[:1]]
    for name, weight in weights.items():
        if not any(name in pair for pair in names):
            raise ConfigError(f"{where} gives a weight to {name!r}: {did_you_mean(name, known)}")
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight < 0:
            raise ConfigError(f"{where}: a weight is a number from 0 up, got {name!r}: {weight!r}")
    for pair in names:
        if not any(name in weights for name in pair):
            raise ConfigError(f"{where} gives no weight to {pair[0]!r}; 0 leaves it out")
    chosen = tuple(float(next(weights[n] for n in pair[::-1] if n in weights)) for pair in names)
    if not sum(chosen):
        raise ConfigError(f"{where}: the weights sum to 0")
    return chosen
