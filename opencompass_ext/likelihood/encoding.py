"""Tokenise texts together with the characters each token stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from tokenizers import Tokenizer

from opencompass_ext.likelihood.spans import EncodedText, fill_empty_ranges
from opencompass_ext.records import LabelledText


class TextEncoder:
    """A fast tokenizer that adds nothing, cuts nothing, and reports untrimmed offsets.

    Works on a copy, so the padding side, truncation and special-token settings of the caller's
    tokenizer are neither used nor changed.

    Args:
        tokenizer: The backend of a fast tokenizer.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
        >>> tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> TextEncoder(tokenizer).encode(["a b"])[0].starts
        array([0, 2])
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = _plain_copy(tokenizer)

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """Return ids and character ranges of each text, without special tokens of its own."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [_to_arrays(e.ids, e.offsets) for e in encodings]

    def token_text(self, token_id: int) -> str:
        """Return the text of one token, as well as a token alone can be shown."""
        return self._tokenizer.decode([token_id], skip_special_tokens=False)


def encode_parts(
    encode: Callable[[Sequence[str]], list[EncodedText]], texts: Sequence[LabelledText]
) -> list[EncodedText]:
    """Tokenise texts, each cut where its ``cuts`` say, and join the parts of each.

    Args:
        encode: Tokenises plain texts; see ``TextEncoder.encode``.
        texts: The texts.

    Example:
        >>> def letters(texts):
        ...     count = [np.arange(len(text)) for text in texts]
        ...     return [EncodedText(n, n, n + 1) for n in count]
        >>> encode_parts(letters, [LabelledText("abcde", {}, cuts=(3,))])[0].ids
        array([0, 1, 2, 0, 1])
    """
    edges = [(0, *labelled.cuts, len(labelled.text)) for labelled in texts]
    parts = [
        labelled.text[start:end]
        for labelled, own in zip(texts, edges, strict=True)
        for start, end in pairwise(own)
    ]
    encoded = iter(encode(parts))
    return [_join([next(encoded) for _ in own[1:]], own) for own in edges]


def _join(parts: Sequence[EncodedText], edges: Sequence[int]) -> EncodedText:
    if len(parts) == 1:
        return parts[0]
    return EncodedText(
        ids=np.concatenate([part.ids for part in parts]),
        starts=np.concatenate([p.starts + at for p, at in zip(parts, edges, strict=False)]),
        ends=np.concatenate([p.ends + at for p, at in zip(parts, edges, strict=False)]),
    )


def _to_arrays(ids: list[int], offsets: list[tuple[int, int]]) -> EncodedText:
    ranges = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    starts, ends = fill_empty_ranges(ranges[:, 0], ranges[:, 1])
    return EncodedText(np.array(ids, dtype=np.int64), starts, ends)


def _plain_copy(tokenizer: Tokenizer) -> Tokenizer:
    """Copy a tokenizer without truncation and padding, and with offsets that keep blanks.

    Some tokenizers trim the blank off the range of a token such as " ok". The blank is part of
    the token, so a span that labels the blank has to meet it.
    """
    settings = json.loads(tokenizer.to_str())
    settings["truncation"] = settings["padding"] = None
    _untrim(settings.get("post_processor"))
    return Tokenizer.from_str(json.dumps(settings))


def _untrim(settings: object) -> None:
    if isinstance(settings, dict):
        if "trim_offsets" in settings:
            settings["trim_offsets"] = False
        for value in settings.values():
            _untrim(value)
    elif isinstance(settings, list):
        for value in settings:
            _untrim(value)
