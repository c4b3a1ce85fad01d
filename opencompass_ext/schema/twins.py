"""Names that must differ: two models or datasets of one abbr would write the same files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opencompass_ext.outputs import safe_name
from opencompass_ext.schema.abbr import dataset_abbr, model_abbr
from opencompass_ext.schema.problems import Problem

_ABBR_OF = {"models": model_abbr, "datasets": dataset_abbr}


def check_twins(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield abbrs that are empty or used twice."""
    for section in _ABBR_OF:
        yield from _twins(section, abbrs_of(section, config.get(section)))


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


def abbrs_of(section: str, entries: Any) -> dict[str, str]:
    """Return the abbr of each well-formed entry by its place in the list; ``[0]`` and so on."""
    abbrs = {}
    for i, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict) and ("abbr" in entry or "type" in entry):
            abbr = _ABBR_OF[section](entry)
            if isinstance(abbr, str):
                abbrs[f"[{i}]"] = abbr
    return abbrs
