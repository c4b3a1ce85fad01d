"""Cut a text of any language into sentences, with nothing lost between them."""

from __future__ import annotations

from opencompass_ext.errors import MissingDependencyError

Span = tuple[int, int]


def sentence_spans(text: str, language: str = "en") -> list[Span]:
    """Return the sentences of ``text`` as half-open character ranges, in order.

    Rules, not a trained model: nothing is downloaded. Full stops of all scripts end a sentence
    whatever ``language`` is, which only says whose abbreviations to know (``"z. B."`` in German).
    A blank line and the beginning of a list item end one too; a single line break does not, since
    it may be a wrapped line. A piece without a letter, such as the ``1.`` of a list, belongs to
    the sentence behind it. Languages that mark no end, such as Thai, stay in one piece.

    Args:
        text: Any text.
        language: ISO 639-1 code; one that is not known is treated as English.

    Returns:
        Ranges without the blanks around them; all else is in exactly one. Empty for a blank text.

    Raises:
        MissingDependencyError: The package ``sentencex`` is not installed.

    Example:
        >>> text = "Dr. Wu paid $3.50. 他喜欢茶。真的吗?"
        >>> [text[start:end] for start, end in sentence_spans(text)]
        ['Dr. Wu paid $3.50.', '他喜欢茶。', '真的吗?']
        >>> sentence_spans("  ")
        []
    """
    spans: list[Span] = []
    held: int | None = None
    for start, end in _pieces(text, language):
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        end = start + len(piece.strip())
        if start == end:
            continue
        start = start if held is None else held
        if any(character.isalpha() for character in text[start:end]):
            spans.append((start, end))
            held = None
        else:
            held = start
    if held is not None:
        # What follows the last letter belongs to the last sentence, if there is one.
        end = len(text.rstrip())
        spans[-1:] = [(spans[-1][0] if spans else held, end)]
    return spans


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Return the sentences of ``text``; see ``sentence_spans``.

    Example:
        >>> split_sentences("1. Tea. 2. Milk.")
        ['1. Tea.', '2. Milk.']
    """
    return [text[start:end] for start, end in sentence_spans(text, language)]


def _pieces(text: str, language: str) -> list[Span]:
    try:
        from sentencex import segment
    except ImportError as error:
        raise MissingDependencyError(
            "sentencex", needed_for="splitting into sentences", extra="judge"
        ) from error
    pieces, start = [], 0
    # Half of a surrogate pair has no UTF-8 form, which is what the splitter reads.
    readable = "".join("�" if "\ud800" <= c <= "\udfff" else c for c in text)
    for piece in segment(language, readable):
        pieces.append((start, start + len(piece)))
        start += len(piece)
    if start != len(text):
        raise AssertionError(f"the splitter lost {len(text) - start} characters of {text!r:.80}")
    return pieces
