"""The run command: from flags to a config, and from there to a run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opencompass_ext.cli.arguments import parse_run_arguments
from opencompass_ext.cli.cluster import with_cluster_flags
from opencompass_ext.cli.quick import quick_dataset, quick_model
from opencompass_ext.errors import ConfigError


class Assembled(NamedTuple):
    """A config as far as flags and files give it, the files it came from, and its origin."""

    config: dict[str, Any]
    sources: list[Path]
    origin: str | None


def run_command(argv: Sequence[str]) -> int:
    """Run an evaluation and return the exit code.

    Raises:
        ConfigError: A mistake in the flags or the config.
    """
    args = parse_run_arguments(argv)
    # Everything below costs time that --help should not.
    from opencompass_ext.config import format_config
    from opencompass_ext.running.run import execute
    from opencompass_ext.schema import check_config, complete_config, without_unknown_keys
    from opencompass_ext.user_code import allow_imports_from

    assembled = assemble(args)
    allow_imports_from([Path.cwd(), *(path.parent for path in assembled.sources)])
    warnings = check_config(
        assembled.config,
        assembled.sources,
        origin=assembled.origin,
        strict=not args.no_strict,
        mode=args.mode,
    )
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    known = without_unknown_keys(assembled.config, args.mode) if warnings else assembled.config
    has_infer = known.get("infer") is not None
    config = apply_flags(complete_config(known), args, has_infer=has_infer)
    return execute(
        config,
        mode=args.mode,
        reuse=args.reuse,
        debug=args.debug,
        dry_run=args.dry_run,
        fail_fast=args.fail_fast,
        config_text=format_config(config, secrets_of=assembled.config),
    )


def assemble(args: argparse.Namespace) -> Assembled:
    """Return the config that the flags name: a file, or models and datasets by name.

    Raises:
        ConfigError: Both or neither, or a file or name that does not work.
    """
    from opencompass_ext.config import load_config

    if args.config is None:
        return _from_names(args)
    named = {
        "--models": args.models,
        "--datasets": args.datasets,
        "--summarizer": args.summarizer,
        "--hf-path": args.hf_path,
        "--custom-dataset-path": args.custom_dataset_path,
    }
    for flag, value in named.items():
        if value:
            raise ConfigError(
                f"{flag} cannot be given beside the config file {args.config}: name all on the "
                "command line, or write all into the config"
            )
    # Companions of flags that are not there are refused like without a config.
    quick_model(args)
    quick_dataset(args)
    path = Path(args.config).expanduser().absolute()
    return Assembled(load_config(path), [path], None)


def _from_names(args: argparse.Namespace) -> Assembled:
    from opencompass_ext import catalog

    folders = config_folders(args.config_dir)
    models = [found for name in args.models for found in catalog.find_models(name, folders)]
    datasets = [found for name in args.datasets for found in catalog.find_datasets(name, folders)]
    sources = [found.path for found in models + datasets]
    config: dict[str, Any] = {
        "models": _concatenated(models, "models"),
        "datasets": _concatenated(datasets, "datasets"),
    }
    for section, quick in (("models", quick_model(args)), ("datasets", quick_dataset(args))):
        if quick is not None:
            config[section].append(quick)
    if not config["models"] or not config["datasets"]:
        missing = (
            "models: --models or --hf-path"
            if not config["models"]
            else ("datasets: --datasets or --custom-dataset-path")
        )
        raise ConfigError(
            f"nothing to run: give a config file, or name {missing}. 'list' shows the names"
        )
    if args.summarizer is not None:
        summarizer = catalog.find_summarizer(args.summarizer, folders)
        config["summarizer"] = summarizer.value
        sources.append(summarizer.path)
    return Assembled(config, list(dict.fromkeys(sources)), "the command line")


def _concatenated(found: Sequence[Any], section: str) -> list[Any]:
    from opencompass_ext.config.where import where

    entries: list[Any] = []
    for value, path in found:
        if not isinstance(value, list):
            raise ConfigError(f"{where(path)}: {section} must be a list, got {value!r:.80}")
        entries += value
    return entries


def config_folders(config_dir: str | None) -> list[Path]:
    """Return the folders in which configs are looked up by name, the first to be asked first.

    Raises:
        ConfigError: ``config_dir`` is not a folder.
    """
    from opencompass_ext.config import packaged_configs

    if config_dir is None:
        return [packaged_configs()]
    folder = Path(config_dir).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"--config-dir: {folder.absolute()} is not a folder")
    return [folder.absolute(), packaged_configs()]


def apply_flags(
    config: Mapping[str, Any], args: argparse.Namespace, *, has_infer: bool = True
) -> dict[str, Any]:
    """Return a complete config with the flags that say how to run written into it.

    Args:
        config: The complete config.
        args: The flags.
        has_infer: Whether the user's config had a section ``infer``. Without one, several workers
            share the rows of large datasets, as in OpenCompass.
    """
    changed = dict(config)
    changed["work_dir"] = args.work_dir or config.get("work_dir") or "outputs/default"
    for stage in ("infer", "eval"):
        runner = with_cluster_flags(config[stage]["runner"], args)
        for key in ("max_num_workers", "max_workers_per_gpu"):
            if getattr(args, key) is not None:
                runner[key] = getattr(args, key)
        changed[stage] = {**config[stage], "runner": runner}
    if not has_infer and (args.max_num_workers or 1) > 1:
        changed["infer"]["partitioner"] = {
            "type": "NumWorkerPartitioner",
            "num_worker": args.max_num_workers,
        }
    if args.limit is not None:
        changed["datasets"] = _limited(config["datasets"], args.limit)
        if "model_dataset_combinations" in config:
            changed["model_dataset_combinations"] = [
                {**group, "datasets": _limited(group["datasets"], args.limit)}
                for group in config["model_dataset_combinations"]
            ]
    return changed


def _limited(datasets: Sequence[Mapping[str, Any]], limit: int) -> list[dict[str, Any]]:
    return [{**d, "limit": min(limit, d.get("limit") or limit)} for d in datasets]
