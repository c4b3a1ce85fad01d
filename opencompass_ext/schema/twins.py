"""Names that must differ: two models or datasets of one abbr would write the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from opencompass_ext.errors import did_you_mean
from opencompass_ext.outputs import safe_name
from opencompass_ext.schema.abbr import dataset_abbr, model_abbr
from opencompass_ext.schema.problems import Problem

_ABBR_OF = {"models": model_abbr, "datasets": dataset_abbr}


def check_twins(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield abbrs that are used twice, and combinations of what is not in the config."""
    for section, abbr_of in _ABBR_OF.items():
        yield from _twins(section, _abbrs(config.get(section), abbr_of))
    yield from _combinations(config)


def _twins(section: str, abbrs: Mapping[str, str]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for key_path, abbr in abbrs.items():
        if not abbr:
            yield Problem(f"{section}{key_path}.abbr", "is empty")
            continue
        # File systems that ignore case would take two spellings for one file.
        file_name = safe_name(abbr).lower()
        other = first.setdefault(file_name, key_path)
        if other == key_path:
            continue
        if abbrs[other] == abbr:
            text = (
                f"{abbr!r} is the abbr of {section}{other} too: give each of the {section} its own"
            )
        else:
            text = (
                f"{abbr!r} and {abbrs[other]!r} of {section}{other} differ in case only, and "
                f"would share a file on some file systems: give each of the {section} its own"
            )
        yield Problem(f"{section}{key_path}.abbr", text)


def _combinations(config: Mapping[str, Any]) -> Iterator[Problem]:
    groups = config.get("model_dataset_combinations")
    if groups is None:
        return
    name = "model_dataset_combinations"
    if not isinstance(groups, list):
        yield Problem(name, "must be a list of dicts with the keys 'models' and 'datasets'")
        return
    for i, group in enumerate(groups):
        if not isinstance(group, dict) or set(group) != set(_ABBR_OF):
            yield Problem(f"{name}[{i}]", "must be a dict with the keys 'models' and 'datasets'")
            continue
        for section, abbr_of in _ABBR_OF.items():
            if not isinstance(group[section], list):
                yield Problem(f"{name}[{i}].{section}", "must be a list of dicts")
                continue
            known = sorted(_abbrs(config.get(section), abbr_of).values())
            for path, abbr in _abbrs(group[section], abbr_of).items():
                if abbr not in known:
                    yield Problem(
                        f"{name}[{i}].{section}{path}",
                        f"{abbr!r} is not one of the {section}: {did_you_mean(abbr, known)}",
                    )


def _abbrs(entries: Any, abbr_of: Callable[[Mapping[str, Any]], str]) -> dict[str, str]:
    """Return the abbr of each well-formed entry by its place in the list; ``[0]`` and so on."""
    abbrs = {}
    for i, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict) and ("abbr" in entry or "type" in entry):
            abbr = abbr_of(entry)
            if isinstance(abbr, str):
                abbrs[f"[{i}]"] = abbr
    return abbrs
