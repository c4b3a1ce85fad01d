"""Cut long texts at sentence ends, so that nothing has to be cut off silently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opencompass_ext.sentences import sentence_spans

CountTokens = Callable[[str], int]


def split_text(text: str, max_tokens: int, count_tokens: CountTokens) -> list[str]:
    """Return ``text`` in pieces of at most ``max_tokens`` tokens, in order.

    Pieces end where a sentence ends; a sentence that is too long by itself is cut at a blank, and
    one without blanks between two characters. Only blanks between pieces are lost.

    Args:
        text: Any text that is not blank.
        max_tokens: At least 1.
        count_tokens: Of a text.

    Example:
        >>> split_text("One two. Three. Four five six.", 3, lambda text: len(text.split()))
        ['One two. Three.', 'Four five six.']
    """
    if count_tokens(text) <= max_tokens:
        return [text]
    bounds: list[tuple[int, int]] = []
    for start, end in sentence_spans(text):
        bounds += _cut(text, start, end, max_tokens, count_tokens)
    pieces: list[str] = []
    begin, taken = bounds[0][0], 0
    last = begin
    for start, end in bounds:
        # With the blanks before it, so that the counts add up to no less than the whole has.
        taken += count_tokens(text[last:end])
        if last > begin and taken > max_tokens:
            pieces.append(text[begin:last])
            begin, taken = start, count_tokens(text[start:end])
        last = end
    pieces.append(text[begin:last])
    return pieces


def in_halves(text: str) -> list[str]:
    """Return a text in two, cut at the sentence end nearest its middle; nothing for one sentence.

    Example:
        >>> in_halves("One. Two. Three is longer."), in_halves("One.")
        (['One. Two.', 'Three is longer.'], [])
    """
    spans = sentence_spans(text)
    if len(spans) < 2:
        return []
    middle = len(text) / 2
    cut = min(range(1, len(spans)), key=lambda i: abs(spans[i][0] - middle))
    return [text[spans[0][0] : spans[cut - 1][1]], text[spans[cut][0] : spans[-1][1]]]


def pack(sizes: Sequence[int], max_size: int, max_count: int | None = None) -> list[range]:
    """Return neighbours in groups whose sizes sum to at most ``max_size``; none is left out.

    An item that is larger by itself has a group of its own.

    Example:
        >>> pack([2, 2, 5, 1], 4)
        [range(0, 2), range(2, 3), range(3, 4)]
    """
    groups: list[range] = []
    start, total = 0, 0
    for i, size in enumerate(sizes):
        is_full = total + size > max_size or (max_count is not None and i - start >= max_count)
        if i > start and is_full:
            groups.append(range(start, i))
            start, total = i, 0
        total += size
    return [*groups, range(start, len(sizes))] if sizes else []


def _cut(
    text: str, start: int, end: int, max_tokens: int, count_tokens: CountTokens
) -> list[tuple[int, int]]:
    """Cut one sentence in halves until each is short enough."""
    if end - start < 2 or count_tokens(text[start:end]) <= max_tokens:
        return [(start, end)]
    middle = (start + end) // 2
    blank = text.find(" ", middle, end - 1)
    before = text.rfind(" ", start + 1, middle)
    if blank < 0 or (before >= 0 and middle - before < blank - middle):
        blank = before
    left, right = (middle, middle) if blank < 0 else (blank, blank + 1)
    return [
        *_cut(text, start, left, max_tokens, count_tokens),
        *_cut(text, right, end, max_tokens, count_tokens),
    ]
