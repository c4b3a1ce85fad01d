"""Load a causal language model and its tokenizer with transformers. Imports torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import transformers
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, GgufConfig

from opencompass_ext.errors import MissingDependencyError, ModelError
from opencompass_ext.likelihood.probe import Traits, probe
from opencompass_ext.models.gguf_conversion import correct_pre_tokenizer, pre_tokenizer_of
from opencompass_ext.models.tokenizer import (
    LOADING_ERRORS,
    TextSide,
    load_tokenizer,
    loading_failure,
    named_source,
    quiet_loading,
    text_side_of,
)

logger = logging.getLogger(__name__)

_PROBE_TEXT = "Every answer has a price, and the shortest one is rarely the cheapest of them."


class LoadedModel(NamedTuple):
    """A model ready to score.

    Attributes:
        model: The causal LM, in eval mode, on its devices.
        traits: What the engine may do with it.
        text_side: How texts become token ids for it.
    """

    model: torch.nn.Module
    traits: Traits
    text_side: TextSide


def load_model(
    path: str,
    *,
    model_kwargs: Mapping[str, Any] = MappingProxyType({}),
    tokenizer_path: str | None = None,
    tokenizer_kwargs: Mapping[str, Any] = MappingProxyType({}),
    peft_path: str | None = None,
    peft_kwargs: Mapping[str, Any] = MappingProxyType({}),
    prefix_token: str | int = "auto",
    max_seq_len: int | None = None,
) -> LoadedModel:
    """Load a model from a folder, a GGUF file, or a hub id.

    Raises:
        ModelError: It cannot be loaded or used as asked.
        MissingDependencyError: An adapter is asked for and ``peft`` is missing.
    """
    source, file_arguments = _split_gguf(path, model_kwargs)
    with quiet_loading():
        model = _load_weights(source, {**model_kwargs, **file_arguments})
        if peft_path is not None:
            model = _add_adapter(model, peft_path, peft_kwargs)
        tokenizer_arguments = {**_shared_arguments(model_kwargs), **tokenizer_kwargs}
        if tokenizer_path is None:
            tokenizer_arguments.update(file_arguments)
        tokenizer = load_tokenizer(tokenizer_path or source, tokenizer_arguments)
        if "gguf_file" in tokenizer_arguments:
            gguf = Path(tokenizer_path or source) / tokenizer_arguments["gguf_file"]
            correct_pre_tokenizer(tokenizer, pre_tokenizer_of(gguf))
    model.eval()
    config = model.config.get_text_config()
    encoded = tokenizer(_PROBE_TEXT, add_special_tokens=False)["input_ids"]
    vocab_size = model.get_input_embeddings().weight.shape[0]
    _check_vocabulary(tokenizer, vocab_size, path)
    text_side = text_side_of(
        tokenizer,
        prefix_token=prefix_token,
        max_seq_len=_choose_max_seq_len(config, max_seq_len),
        alone_above=_length_sensitive_above(config),
    )
    _check_prefix(text_side.prefix_ids, vocab_size)
    return LoadedModel(
        model=model,
        traits=probe(model, encoded if len(encoded) > 3 else list(range(min(12, vocab_size)))),
        text_side=text_side,
    )


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that compute the scores."""
    return {"torch": torch.__version__, "transformers": transformers.__version__}


def _split_gguf(path: str, model_kwargs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the folder and the arguments that name a GGUF file in it."""
    if path.endswith(".gguf"):
        return str(Path(path).parent), {"gguf_file": Path(path).name}
    if "gguf_file" in model_kwargs:
        return path, {"gguf_file": model_kwargs["gguf_file"]}
    return path, {}


def _shared_arguments(model_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: model_kwargs[k] for k in ("revision", "trust_remote_code") if k in model_kwargs}


def _load_weights(source: str, model_kwargs: dict[str, Any]) -> Any:
    arguments = {"trust_remote_code": False, **model_kwargs}
    dtype = arguments.pop("torch_dtype", None) or arguments.pop("dtype", None) or "auto"
    arguments["dtype"] = as_dtype(dtype)
    if "gguf_file" in arguments:
        arguments.setdefault("quantization_config", GgufConfig(dequantize=True))
    else:
        _check_config(source, arguments)
    if "device_map" not in arguments and torch.cuda.is_available():
        # accelerate spreads the layers when one device is too small, or several were asked for.
        arguments["device_map"] = "auto" if torch.cuda.device_count() > 1 else "cuda:0"
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            source, **arguments, output_loading_info=True
        )
    except SafetensorError as error:
        raise _damaged_weights(source, error) from error
    except LOADING_ERRORS as error:
        raise ModelError(
            f"cannot load the model {named_source(source, arguments)!r}: "
            f"{loading_failure(error, model_kwargs=model_kwargs)}"
        ) from error
    # transformers only warns, and leaves such parameters random.
    lacking = sorted([*report["missing_keys"], *report["mismatched_keys"]], key=str)
    if lacking:
        raise ModelError(
            f"the weights of {named_source(source, arguments)!r} lack {len(lacking)} parameters of "
            f"the model, or have them in another shape: {', '.join(map(str, lacking[:3]))}...; its "
            "config.json and weights do not belong together"
        )
    return model


def _check_config(source: str, arguments: Mapping[str, Any]) -> None:
    """Check that a local folder has a config.json, of which transformers says nothing clear."""
    folder = Path(source, arguments.get("subfolder") or "")
    # transformers itself follows an adapter to the model it was trained on.
    sufficient = ("config.json", "adapter_config.json")
    if "config" in arguments or not folder.is_dir():
        return
    if not any((folder / name).is_file() for name in sufficient):
        ggufs = sorted(file.name for file in folder.glob("*.gguf"))
        hint = f", or one of its GGUF files, such as {str(folder / ggufs[0])!r}" if ggufs else ""
        raise ModelError(
            f"cannot load the model {str(folder)!r}: the folder has no config.json; give a folder "
            f"that holds config.json and the weights{hint}"
        )


def _damaged_weights(source: str, error: SafetensorError) -> ModelError:
    """Return the error for weights that safetensors cannot read, with the first such file."""
    damaged = source
    for file in sorted(Path(source).glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt"):
                pass
        except SafetensorError:
            damaged = str(file)
            break
    return ModelError(
        f"cannot load the weights {damaged!r}: the file is damaged ({error}): download or copy it "
        "again"
    )


def _add_adapter(model: Any, peft_path: str, peft_kwargs: Mapping[str, Any]) -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingDependencyError("peft", needed_for="peft_path", extra="peft") from error
    try:
        adapted = peft.PeftModel.from_pretrained(model, peft_path, **peft_kwargs)
    except SafetensorError as error:
        raise _damaged_weights(peft_path, error) from error
    except LOADING_ERRORS as error:
        raise ModelError(
            f"cannot load the adapter {peft_path!r}: "
            f"{loading_failure(error, peft_kwargs=peft_kwargs)}"
        ) from error
    if any(config.is_prompt_learning for config in adapted.peft_config.values()):
        raise ModelError(
            f"the adapter {peft_path!r} puts trained vectors before the text, which this scorer "
            "does not support; merge it, or use an adapter that changes weights (LoRA and its kin)"
        )
    return adapted.get_base_model()


def as_dtype(name: Any) -> Any:
    """Return the torch dtype for ``"torch.bfloat16"``, ``"bfloat16"`` or a dtype; "auto" stays.

    Raises:
        ModelError: There is no such dtype.

    Example:
        >>> as_dtype("torch.bfloat16")
        torch.bfloat16
    """
    if name == "auto" or isinstance(name, torch.dtype):
        return name
    dtype = getattr(torch, str(name).removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        raise ModelError(
            f"unknown dtype {name!r} in model_kwargs; use 'auto', 'float32', "
            "'bfloat16' or 'float16'"
        )
    return dtype


def _choose_max_seq_len(config: Any, asked: int | None) -> int | None:
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length")
    own = next((getattr(config, n) for n in names if getattr(config, n, None)), None)
    for parameters in _rope_parameters(getattr(config, "rope_parameters", None)):
        # Rotary embeddings that are stretched reach further than they were trained.
        trained = parameters.get("original_max_position_embeddings") or own
        own = own and max(own, int(trained * parameters.get("factor", 1)))
    if own is None or asked is None:
        return asked or own
    if asked > own:
        logger.warning(
            "max_seq_len=%d is more than the %d positions the model has: using %d", asked, own, own
        )
    return min(asked, own)


def _length_sensitive_above(config: Any) -> int | None:
    """Return the length from which rotary frequencies depend on the longest row of a batch."""
    for parameters in _rope_parameters(getattr(config, "rope_parameters", None)):
        if parameters.get("rope_type") in ("dynamic", "longrope"):
            original = parameters.get("original_max_position_embeddings")
            return (
                original
                or getattr(config, "original_max_position_embeddings", None)
                or (config.max_position_embeddings)
            )
    return None


def _rope_parameters(settings: Any) -> list[Mapping[str, Any]]:
    """Return the rotary settings; models with two kinds of layers hold one set for each."""
    if not isinstance(settings, Mapping):
        return []
    nested = [value for value in settings.values() if isinstance(value, Mapping)]
    return nested or [settings]


def _check_prefix(prefix_ids: Sequence[int], vocab_size: int) -> None:
    for token_id in prefix_ids:
        if not 0 <= token_id < vocab_size:
            raise ModelError(f"prefix_token {token_id}: the vocabulary has {vocab_size} tokens")


def _check_vocabulary(tokenizer: Any, vocab_size: int, path: str) -> None:
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest >= vocab_size:
        logger.warning(
            "the tokenizer of %s knows token ids up to %d and the model has %d: texts that "
            "contain the missing ones cannot be scored",
            path,
            largest,
            vocab_size,
        )
