"""Load a tokenizer with transformers, and find what it puts before a text. Imports transformers."""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
import transformers
from safetensors import SafetensorError
from transformers import AutoTokenizer

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.likelihood.encoding import TextEncoder
from opencompass_ext.likelihood.spans import IntArray
from opencompass_ext.records import Message

#: What transformers and the libraries below it raise for files and arguments they cannot use.
LOADING_ERRORS = (
    *(OSError, ValueError, ImportError, LookupError, TypeError, RuntimeError, EOFError),
    *(SafetensorError, struct.error),
)


class TextSide(NamedTuple):
    """How texts become token ids for a model.

    Attributes:
        tokenizer: The tokenizer of transformers.
        encoder: Makes ids and character ranges of texts.
        prefix_ids: Tokens that stand before every text.
        max_seq_len: Tokens the model takes at once, prefix included; None for no limit.
        alone_above: Length from which the position encoding depends on the whole input; or None.
    """

    tokenizer: Any
    encoder: TextEncoder
    prefix_ids: tuple[int, ...]
    max_seq_len: int | None
    alone_above: int | None = None

    def prefix_by(self, prefix_token: str | int | None) -> tuple[int, ...]:
        """Return the tokens before every text by another rule; None keeps the model's own."""
        if prefix_token is None:
            return self.prefix_ids
        return find_prefix_ids(self.tokenizer, prefix_token)

    def encode_with_prefix(self, texts: Sequence[str]) -> list[IntArray]:
        """Return the token ids of texts after the prefix, which none of them gets twice."""
        prefix = np.array(self.prefix_ids, dtype=np.int64)
        encoded = self.encoder.encode(texts)
        return [
            text.ids
            if np.array_equal(text.ids[: len(prefix)], prefix)
            else np.concatenate([prefix, text.ids])
            for text in encoded
        ]


def text_side_of(
    tokenizer: Any,
    *,
    prefix_token: str | int,
    max_seq_len: int | None,
    alone_above: int | None = None,
) -> TextSide:
    """Return how texts become token ids with a fast tokenizer of transformers.

    Raises:
        ModelError: The tokenizer lacks the token that ``prefix_token`` asks for, splits special
            tokens, or cannot be copied.
    """
    if getattr(tokenizer, "split_special_tokens", False):
        raise ModelError(
            f"the tokenizer {tokenizer.name_or_path!r} has split_special_tokens=True, which this "
            "scorer does not support: a special token in a text is read as one token; remove it "
            "from tokenizer_kwargs and tokenizer_config.json"
        )
    return TextSide(
        tokenizer=tokenizer,
        encoder=_encoder_of(tokenizer),
        prefix_ids=find_prefix_ids(tokenizer, prefix_token),
        max_seq_len=max_seq_len,
        alone_above=alone_above,
    )


def _encoder_of(tokenizer: Any) -> TextEncoder:
    try:
        return TextEncoder(tokenizer.backend_tokenizer)
    except Exception as error:  # tokenizers raises no narrower one
        raise ModelError(
            f"the tokenizer {tokenizer.name_or_path!r} ({type(tokenizer).__name__}) cannot be "
            f"copied: {error}; give tokenizer_path a folder whose tokenizer.json holds all of it"
        ) from error


def load_tokenizer(source: str, arguments: Mapping[str, Any]) -> Any:
    """Return the fast tokenizer of transformers at ``source``.

    Raises:
        ModelError: It cannot be loaded, or reports no character offsets.
    """
    try:
        with quiet_loading():
            tokenizer = AutoTokenizer.from_pretrained(source, **arguments)
    except LOADING_ERRORS as error:
        raise ModelError(
            f"cannot load the tokenizer {named_source(source, arguments)!r}: "
            f"{loading_failure(error, tokenizer_kwargs=arguments)}"
        ) from error
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise ModelError(
            f"the tokenizer of {source!r} ({type(tokenizer).__name__}) reports no character "
            "offsets, so labelled characters cannot be mapped to tokens; give tokenizer_path a "
            "folder with a fast tokenizer (a tokenizer.json of the same vocabulary)"
        )
    return tokenizer


def find_prefix_ids(tokenizer: Any, prefix_token: str | int) -> tuple[int, ...]:
    """Return the tokens to put before every text.

    Args:
        tokenizer: A tokenizer of transformers.
        prefix_token: ``"auto"``: what the tokenizer itself puts before a text, usually BOS or
            nothing; ``"bos"``, ``"eos"``, ``"none"``, or a token id; ``"bos_or_eos"``: the first of
            the two that the tokenizer defines, nothing if it has neither.

    Raises:
        ModelError: The tokenizer has no such token.
    """
    if isinstance(prefix_token, int):
        return (prefix_token,)
    if prefix_token == "none":
        return ()
    if prefix_token == "bos_or_eos":
        defined = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        return next(((token_id,) for token_id in defined if token_id is not None), ())
    if prefix_token == "auto":
        plain = tokenizer("a", add_special_tokens=False)["input_ids"]
        decorated = tokenizer("a", add_special_tokens=True)["input_ids"]
        for length in range(len(decorated) - len(plain) + 1):
            if decorated[length : length + len(plain)] == plain:
                return tuple(decorated[:length])
        return ()
    token_id = {"bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id}[prefix_token]
    if token_id is None:
        raise ModelError(
            f"prefix_token={prefix_token!r}, but the tokenizer defines no such token; use 'none', "
            "'auto', or a token id"
        )
    return (token_id,)


def apply_chat_template(
    tokenizer: Any, messages: Sequence[Message], variables: Mapping[str, Any]
) -> str:
    """Return messages in the tokenizer's chat template, up to where the answer begins.

    Raises:
        ConfigError: The tokenizer has no template, or the template refuses the messages.
    """
    if not tokenizer.chat_template:
        raise ConfigError(
            f"the tokenizer {tokenizer.name_or_path!r} has no chat template: leave "
            "chat templates out (chat_template=False; HuggingFaceBaseModel to generate), or set "
            "chat_template in tokenizer_kwargs"
        )
    try:
        return tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=True,
            **variables,
        )
    except jinja2.TemplateError as error:
        roles = [message.get("role") for message in messages]
        raise ConfigError(
            f"the chat template of {tokenizer.name_or_path!r} refuses messages of the roles "
            f"{roles}: {error}"
        ) from error


def named_source(source: str, arguments: Mapping[str, Any]) -> str:
    """Return the file or folder that ``from_pretrained`` reads, for an error message."""
    return str(Path(source) / arguments["gguf_file"]) if "gguf_file" in arguments else source


def loading_failure(error: Exception, **passed: Mapping[str, Any]) -> str:
    """Return the part of an error of transformers that says what is wrong.

    Args:
        error: What was raised.
        **passed: The arguments it was raised for, under the name of the config key they come from.
    """
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return (
            f"{text[:300]} | The model brings its own code. Read it, and if you trust it set "
            "model_kwargs=dict(trust_remote_code=True)."
        )
    if isinstance(error, struct.error):
        return f"the file ends too early: {text[:500]}"
    unknown = re.search(r"unexpected keyword argument '(\w+)'", text)
    keys = [key for key, arguments in passed.items() if unknown and unknown[1] in arguments]
    return f"{type(error).__name__}: {text[:500]}" + (f": check {keys[0]}" if keys else "")


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Keep progress bars and warnings of transformers out of task logs."""
    bars_were_on = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if bars_were_on:
            transformers.utils.logging.enable_progress_bar()
