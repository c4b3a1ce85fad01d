"""``model_dataset_combinations``: which models meet which datasets, where not all meet all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from opencompass_ext.errors import did_you_mean
from opencompass_ext.schema.problems import Problem
from opencompass_ext.schema.twins import abbrs_of

_NAME = "model_dataset_combinations"

# Called with a list of the config and its key path.
Check = Callable[[Any, str], Iterator[Problem]]


def check_combinations(config: Mapping[str, Any], checks: Mapping[str, Check]) -> Iterator[Problem]:
    """Yield what is wrong with the combinations.

    Args:
        config: The config.
        checks: How the list of each section is checked. Entries of combinations are as a rule
            those of the two lists, which have been checked; what differs from them is checked here.
    """
    groups = config.get(_NAME)
    if groups is None:
        return
    if not isinstance(groups, list):
        yield Problem(_NAME, "must be a list of dicts with the keys 'models' and 'datasets'")
        return
    for i, group in enumerate(groups):
        if not isinstance(group, dict) or set(group) != set(checks):
            yield Problem(f"{_NAME}[{i}]", "must be a dict with the keys 'models' and 'datasets'")
            continue
        for section, check in checks.items():
            key_path = f"{_NAME}[{i}].{section}"
            yield from _entries(group[section], config.get(section), section, key_path, check)


def _entries(
    entries: Any, given: Any, section: str, key_path: str, check: Check
) -> Iterator[Problem]:
    is_list = isinstance(entries, list) and isinstance(given, list)
    if is_list and entries and all(entry in given for entry in entries):
        return
    yield from check(entries, key_path)
    known = sorted(abbrs_of(section, given).values())
    for place, abbr in abbrs_of(section, entries).items():
        if abbr not in known:
            yield Problem(
                f"{key_path}{place}",
                f"{abbr!r} is not one of the {section}: {did_you_mean(abbr, known)}",
            )
