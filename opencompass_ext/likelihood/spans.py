"""From labelled characters to counted tokens.

    text      "x😀 ok"           span [1, 2) labels the emoji
    tokens     x  ðŁ  ĺ  Ģ  Ġok      one emoji, three byte tokens
    range     0-1 1-2 1-2 1-2 2-5    from the tokenizer, in characters of the text
    counted        *   *   *         ranges that meet the span

Nothing here guesses: the only source of positions is the tokenizer's offset mapping.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opencompass_ext.records import Span

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class EncodedText(NamedTuple):
    """A tokenised text.

    Attributes:
        ids: Token ids, ``[tokens]``.
        starts, ends: Character range ``[start, end)`` of each token in the text, ``[tokens]``.
    """

    ids: IntArray
    starts: IntArray
    ends: IntArray


class CountedTokens(NamedTuple):
    """The tokens that a set of spans counts.

    Attributes:
        tokens: Indices of the counted tokens, ascending.
        unaligned_chars: Labelled characters that no token owns.
    """

    tokens: IntArray
    unaligned_chars: int


def fill_empty_ranges(starts: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """Give each token with an empty range the range between its neighbours.

    Some tokenizers report ``(k, k)`` for a token that stands for blanks or for part of a
    character. The text it stands for lies after what is owned before it and before what is owned
    after it.

    Example:
        >>> fill_empty_ranges(np.array([0, 3, 5]), np.array([3, 3, 7]))
        (array([0, 3, 5]), array([3, 5, 7]))
    """
    empty = starts == ends
    if not empty.any():
        return starts, ends
    owned_end = np.where(empty, 0, ends)
    end_before = np.concatenate(([0], np.maximum.accumulate(owned_end)[:-1]))
    far = np.iinfo(np.int64).max
    owned_start = np.where(empty, far, starts)
    start_after = np.concatenate((np.minimum.accumulate(owned_start[::-1])[::-1][1:], [far]))
    start_after = np.where(start_after == far, ends, start_after)
    new_starts = np.where(empty, end_before, starts)
    new_ends = np.where(empty, np.maximum(start_after, new_starts), ends)
    return new_starts, new_ends


def count_tokens(encoded: EncodedText, spans: Sequence[Span], text_length: int) -> CountedTokens:
    """Find the tokens whose character range meets a labelled span.

    Args:
        encoded: The tokenised text, empty ranges already filled.
        spans: Half-open character ranges inside the text; they may touch or overlap, a token
            counts once.
        text_length: Characters in the text.

    Example:
        >>> ok = EncodedText(np.array([5, 6, 7]), np.array([0, 1, 2]), np.array([1, 2, 5]))
        >>> count_tokens(ok, [(1, 3)], text_length=5)
        CountedTokens(tokens=array([1, 2]), unaligned_chars=0)
    """
    counted = np.zeros(len(encoded.ids), dtype=bool)
    for start, end in spans:
        if start < end:
            counted |= (encoded.starts < end) & (encoded.ends > start)
    return CountedTokens(np.flatnonzero(counted), _unaligned_chars(encoded, spans, text_length))


def _unaligned_chars(encoded: EncodedText, spans: Sequence[Span], text_length: int) -> int:
    # The usual case, decided without looking at single characters: tokens tile the text.
    tiles = (
        len(encoded.ids) > 0
        and encoded.starts[0] == 0
        and encoded.ends[-1] == text_length
        and bool(np.all(encoded.starts[1:] <= encoded.ends[:-1]))
    )
    if tiles:
        return 0
    ranges = np.array(spans, dtype=np.int64).reshape(-1, 2)
    labelled = _covered_chars(ranges[:, 0], ranges[:, 1], text_length)
    owned = _covered_chars(encoded.starts, encoded.ends, text_length)
    return int(np.count_nonzero(labelled & ~owned))


def _covered_chars(starts: IntArray, ends: IntArray, text_length: int) -> BoolArray:
    """Return which characters lie in at least one half-open range, ``[text_length]``."""
    edges = np.zeros(text_length + 1, dtype=np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, np.maximum(starts, ends), -1)
    return np.cumsum(edges[:-1]) > 0


def utf8_length(text: str, encoded: EncodedText, tokens: IntArray) -> int:
    """Return the UTF-8 bytes of the characters that ``tokens`` stand for, each character once.

    Example:
        >>> two = EncodedText(np.array([8, 9]), np.array([0, 1]), np.array([1, 2]))
        >>> utf8_length("a😀", two, np.array([1]))
        4
    """
    if len(tokens) == 0:
        return 0
    code_points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
    byte_lengths = 1 + (code_points > 0x7F) + (code_points > 0x7FF) + (code_points > 0xFFFF)
    covered = _covered_chars(encoded.starts[tokens], encoded.ends[tokens], len(text))
    return int(byte_lengths[covered].sum())
