"""A model and a data set from flags alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from opencompass_ext.errors import ConfigError

_MODEL_TYPES = {"base": "HuggingFaceBaseModel", "chat": "HuggingFacewithChatTemplate"}
_MODEL_FLAGS = (
    "tokenizer_path",
    "model_kwargs",
    "tokenizer_kwargs",
    "peft_path",
    "peft_kwargs",
    "generation_kwargs",
    "max_seq_len",
    "max_out_len",
    "batch_size",
    "pad_token_id",
)


def quick_model(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return the model that ``--hf-path`` and its companions describe, or None without them.

    Its abbr is the last part of the path and ``_hf``, as in OpenCompass.

    Raises:
        ConfigError: A companion without ``--hf-path``.
    """
    if args.hf_path is None:
        for name in ("hf_type", "hf_num_gpus", *_MODEL_FLAGS):
            if getattr(args, name) is not None:
                flag = name.replace("_", "-")
                raise ConfigError(f"--{flag} describes the model of --hf-path, which is not given")
        return None
    given = {name: value for name in _MODEL_FLAGS if (value := getattr(args, name)) is not None}
    arguments = {
        name: _to_dict(name, value) if name.endswith("_kwargs") else value
        for name, value in given.items()
    }
    return {
        "type": _MODEL_TYPES[args.hf_type or "base"],
        "abbr": args.hf_path.rstrip("/").rpartition("/")[2] + "_hf",
        "path": args.hf_path,
        **arguments,
        "run_cfg": {"num_gpus": _num_gpus(args.hf_num_gpus)},
    }


def quick_dataset(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return the data set that ``--custom-dataset-path`` describes, or None without it.

    Raises:
        ConfigError: A template without labelled columns, or the other way round.
    """
    template, columns = args.custom_dataset_template, args.custom_dataset_labelled_columns
    if args.custom_dataset_path is None:
        if template or columns:
            raise ConfigError(
                "--custom-dataset-template and --custom-dataset-labelled-columns describe the "
                "file of --custom-dataset-path, which is not given"
            )
        return None
    if bool(template) != bool(columns):
        raise ConfigError(
            "--custom-dataset-template and --custom-dataset-labelled-columns go together: the one "
            "says what the model reads, the other which columns of it are scored"
        )
    inferencer: dict[str, Any] = {"type": "InferencePPLOnlyInferencer"}
    if columns:
        # A shell hands \n on as two characters.
        text = template.replace("\\n", "\n").replace("\\t", "\t")
        data = {"type": "JsonlDataset", "path": args.custom_dataset_path, "reader_cfg": {}}
        inferencer["labelled_columns"] = columns
    else:
        text = "{text}"
        reader_cfg = {"input_columns": ["text"], "output_column": None}
        data = {
            "type": "InferencePPLDataset",
            "path": args.custom_dataset_path,
            "reader_cfg": reader_cfg,
        }
    return {
        "abbr": Path(args.custom_dataset_path).stem,
        **data,
        "infer_cfg": {
            "prompt_template": {"type": "PromptTemplate", "template": text},
            "retriever": {"type": "ZeroRetriever"},
            "inferencer": inferencer,
        },
        "eval_cfg": {"evaluator": {"type": "AverageInferencePPLEvaluator"}},
    }


def _to_dict(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"--{name.replace('_', '-')} has the key {key!r} twice")
    return dict(pairs)


def _num_gpus(asked_for: int | None) -> int:
    if asked_for is not None:
        return asked_for
    from opencompass_ext.runners.devices import visible_devices

    return 1 if visible_devices() else 0
