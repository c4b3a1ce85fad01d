"""Words around numbers."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an *s* unless there is one of it.

    Example:
        >>> counted(1, "vote"), counted(0, "vote"), counted(40, "question")
        ('1 vote', '0 votes', '40 questions')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(numbers: dict[str, int]) -> str:
    """Return what there is how often, the commonest first.

    Example:
        >>> listed({"blank_answer": 1, "no_sources": 24})
        'no_sources (24), blank_answer (1)'
    """
    ordered = sorted(numbers.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} ({number})" for name, number in ordered)
