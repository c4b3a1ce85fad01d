"""From a GGUF file to a plain Hugging Face folder, with the tokenizer the file describes.

transformers reads both from the file. Its reading of one pre-tokenizer is incomplete, which is
corrected here.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from opencompass_ext.errors import ModelError

#: Goes up whenever a conversion gives other weights or another tokenizer than before.
CONVERSION = 1


def convert_gguf(gguf: Path, folder: Path, *, pre_tokenizer: str) -> None:
    """Write the dequantised float32 weights, config and tokenizer of ``gguf`` into ``folder``.

    float32 because a dequantised value is a float16 scale times an integer, plus an offset: any
    smaller type would round it.

    Args:
        gguf: The file.
        folder: An existing folder.
        pre_tokenizer: What the file says under ``tokenizer.ggml.pre``.

    Raises:
        ModelError: transformers is too old, or found no weight for some parameter.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        from transformers import GgufConfig
    except ImportError as error:
        raise ModelError(
            "reading a GGUF file needs transformers >= 5.18, installed is "
            f"{version('transformers')}: pip install --upgrade transformers"
        ) from error

    where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    with _quiet_transformers():
        model, report = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            **where,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            output_loading_info=True,
        )
        # transformers only warns, and leaves such parameters random.
        if report["missing_keys"] or report["mismatched_keys"]:
            raise ModelError(
                f"{gguf} lacks weights for {sorted(report['missing_keys'])} and has others of a "
                f"wrong shape: {sorted(report['mismatched_keys'])}"
            )
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **where)
        correct_pre_tokenizer(tokenizer, pre_tokenizer)
        try:
            model.save_pretrained(folder)
        except SafetensorError as error:  # how safetensors tells of a full disk
            raise OSError(f"cannot write the weights to {folder}: {error}") from error
        tokenizer.save_pretrained(folder)
    # safetensors writes files that only their owner may read, and a cache may be shared.
    for weights in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", weights)


def pre_tokenizer_of(gguf_file: Path) -> str:
    """Return what a GGUF file says under ``tokenizer.ggml.pre``; empty when it says nothing."""
    import gguf

    field = gguf.GGUFReader(gguf_file).get_field("tokenizer.ggml.pre")
    return "" if field is None else str(field.contents())


def correct_pre_tokenizer(tokenizer: Any, pre_tokenizer: str) -> None:
    """Make a fast tokenizer read from a GGUF file split text as the file demands.

    ``smollm`` means that every digit stands alone before the byte-level split. transformers
    (seen in 5.24) knows no such name and leaves the digits out, so blanks before a digit are cut
    in another way: two spaces and ``7`` become ``Ġ Ġ 7`` instead of ``ĠĠ 7``.
    """
    from tokenizers import pre_tokenizers

    if pre_tokenizer == "smollm":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    has_progress_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        # The bar of the dequantisation is a bare tqdm, which heeds neither switch.
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if has_progress_bars:
            transformers_logging.enable_progress_bar()
