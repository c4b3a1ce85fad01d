"""The commands that look and do not run: ``list`` and ``validate``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opencompass_ext.cli.arguments import Parser
from opencompass_ext.errors import ConfigError, did_you_mean


def list_command(argv: Sequence[str]) -> int:
    """List the configs and classes you can name, with one-line descriptions."""
    parser = Parser(prog="run.py list", description=list_command.__doc__)
    parser.add_argument(
        "kinds",
        nargs="*",
        metavar="KIND",
        help="models, datasets, judges, summarizers or types (default: all)",
    )
    parser.add_argument("--config-dir", metavar="DIR", help="an additional folder of configs")
    args = parser.parse_args(argv)
    from opencompass_ext.catalog import KINDS

    known = [*KINDS, "types"]
    for kind in args.kinds:
        if kind not in known:
            raise ConfigError(f"list knows no {kind!r}: {did_you_mean(kind, known)}")
    for kind in args.kinds or known:
        sections = _types() if kind == "types" else _configs(kind, args.config_dir)
        for title, rows in sections.items():
            _print_section(title, rows)
    return 0


def validate_command(argv: Sequence[str]) -> int:
    """Check configs without running them; exit code 0 if all are good, 2 if not."""
    parser = Parser(prog="run.py validate", description=validate_command.__doc__)
    parser.add_argument("configs", nargs="+", metavar="CONFIG")
    parser.add_argument("--no-strict", action="store_true", help="unknown keys are warnings only")
    args = parser.parse_args(argv)
    failures = 0
    for config in args.configs:
        try:
            print(f"{config}: ok ({_validate(Path(config), strict=not args.no_strict)})")
        except ConfigError as error:
            failures += 1
            print(f"error: {error}", file=sys.stderr)
    return 2 if failures else 0


def _validate(path: Path, strict: bool) -> str:
    """Check one file and return what it holds."""
    from opencompass_ext.config import load_config
    from opencompass_ext.config.where import where
    from opencompass_ext.schema import check_config, check_parts
    from opencompass_ext.user_code import allow_imports_from

    path = path.expanduser().absolute()
    config = load_config(path)
    allow_imports_from([Path.cwd(), path.parent])
    is_whole = ("models" in config and "datasets" in config) or "infer" in config
    check = check_config if is_whole else check_parts
    for warning in check(config, [path], strict=strict):
        print(f"warning: {warning}", file=sys.stderr)
    contents = ", ".join(_contents(config, is_whole))
    if not contents:
        raise ConfigError(
            f"{where(path)}: holds none of models, datasets, ..._datasets and summarizer"
        )
    return contents if is_whole else f"part of a config; {contents}"


def _contents(config: Mapping[str, Any], is_whole: bool) -> Iterator[str]:
    for name, value in config.items():
        is_part = name.endswith("_datasets") and not is_whole
        if isinstance(value, list) and (name in ("models", "datasets") or is_part):
            yield f"{name}: {len(value)}"
    if "summarizer" in config:
        yield "a summarizer"


def _configs(kind: str, config_dir: str | None) -> dict[str, list[tuple[str, str]]]:
    from opencompass_ext.catalog import list_entries
    from opencompass_ext.cli.run import config_folders

    entries = list_entries(kind, config_folders(config_dir))
    return {kind: [(entry.name, entry.summary) for entry in entries]}


def _types() -> dict[str, list[tuple[str, str]]]:
    from opencompass_ext import registry

    registries = [r for r in vars(registry).values() if isinstance(r, registry.Registry)]
    return {
        f"{r.name} types": [(name, _first_line(r.module_dict[name])) for name in r.names()]
        for r in registries
    }


def _first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or "").strip().partition("\n")[0]


def _print_section(title: str, rows: Sequence[tuple[str, str]]) -> None:
    print(title)
    width = max((len(name) for name, _ in rows), default=0)
    for name, summary in rows:
        print(f"  {name:<{width}}  {summary}".rstrip())
    if not rows:
        print("  (none)")
