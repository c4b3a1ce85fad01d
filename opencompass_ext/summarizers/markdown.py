"""Markdown out of plain texts, none of which is Markdown itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], is_text: Sequence[bool]
) -> Iterator[str]:
    r"""Yield the lines of a table; columns that hold no text stand on the right.

    Example:
        >>> print("\n".join(table_lines(["name", "n"], [["a|b", "3"]], [True, False])))
        | name | n |
        | --- | ---: |
        | a\|b | 3 |
    """
    yield _row(headings)
    yield f"| {' | '.join('---' if text else '---:' for text in is_text)} |"
    for row in rows:
        yield _row(row)


def escaped(text: str) -> str:
    r"""Return a text as one line that Markdown shows as it is.

    Example:
        >>> print(escaped("a_b*c\n<d>"))
        a_b\*c \<d>
    """
    line = " ".join(text.split())
    for mark in ("\\", "|", "<", "*", "`"):
        line = line.replace(mark, "\\" + mark)
    return line


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"
