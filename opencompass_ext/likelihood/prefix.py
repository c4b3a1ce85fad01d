"""Find the beginnings that pieces share, so that each is read once.

Few-shot examples before every row, one question before many answers, one source before many
verdict prompts: sorted by their ids, such pieces stand side by side, and their shared beginnings
form a tree.

    ids, sorted        shared with the row above          tree
    F F Q Q A          -                                  F F ── Q Q ── A
    F F Q Q B          4                                      │      └─ B
    F F R              2                                      └─ R

A node is read after its parent's tokens are in the cache, once for all rows below it. Nodes that
would save less than their extra forward pass costs are dissolved into their parents.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from opencompass_ext.likelihood.spans import IntArray


@dataclass(slots=True)
class PrefixNode:
    """Tokens ``[start, end)`` of the rows below, read once for all of them.

    Attributes:
        start: Tokens already in the cache when this node is read.
        end: Tokens in the cache afterwards. The root has ``start == end == 0``: nothing to read.
        rows: Rows read directly after this node, ascending.
        children: Nodes read directly after this node.
    """

    start: int = 0
    end: int = 0
    rows: list[int] = field(default_factory=list)
    children: list[PrefixNode] = field(default_factory=list)

    @property
    def saved_tokens(self) -> int:
        """Tokens that need not be read again because this node exists."""
        return (len(self.rows) + len(self.children) - 1) * (self.end - self.start)

    def rows_below(self) -> Iterator[int]:
        """Yield all rows of this node and of the nodes below it."""
        # No recursion: a growing conversation makes a tree as deep as it has turns.
        todo = [self]
        while todo:
            node = todo.pop()
            yield from node.rows
            todo.extend(node.children)


def shared_lengths(sorted_ids: Sequence[IntArray]) -> list[int]:
    """Return how many first tokens each row shares with the row before it, 0 for the first row.

    Example:
        >>> import numpy as np
        >>> shared_lengths([np.array([1, 2]), np.array([1, 2, 3]), np.array([1, 4])])
        [0, 2, 1]
    """
    lengths = [0] if sorted_ids else []
    for before, row in itertools.pairwise(sorted_ids):
        shortest = min(len(before), len(row))
        different = before[:shortest] != row[:shortest]
        lengths.append(int(different.argmax()) if different.any() else shortest)
    return lengths


def prefix_tree(shared: Sequence[int], *, min_saved_tokens: int) -> PrefixNode:
    """Build the tree of shared beginnings that are worth a forward pass of their own.

    Args:
        shared: Of each sorted row, the first tokens it shares with the row before it.
        min_saved_tokens: A node that saves fewer tokens is dissolved.

    Returns:
        The root. Each row stands in it exactly once.

    Example:
        >>> root = prefix_tree([0, 4, 2, 0], min_saved_tokens=1)
        >>> root.rows, [(node.start, node.end, node.rows) for node in root.children]
        ([3], [(0, 2, [2])])
        >>> [(node.start, node.end, node.rows) for node in root.children[0].children]
        [(2, 4, [0, 1])]
    """
    # The open nodes from the root down to the last row read, each sharing more tokens.
    path = [PrefixNode()]
    for row in range(len(shared)):
        shared_with_next = shared[row + 1] if row + 1 < len(shared) else 0
        if shared_with_next > path[-1].end:
            path.append(PrefixNode(end=shared_with_next))
        path[-1].rows.append(row)
        while path[-1].end > shared_with_next:
            closed = path.pop()
            if path[-1].end < shared_with_next:
                path.append(PrefixNode(end=shared_with_next))
            _close(closed, parent=path[-1], min_saved_tokens=min_saved_tokens)
    return path[0]


def _close(node: PrefixNode, parent: PrefixNode, min_saved_tokens: int) -> None:
    """Hang a finished node below its parent, or dissolve it there."""
    node.start = parent.end
    if node.saved_tokens >= max(1, min_saved_tokens):
        parent.children.append(node)
        return
    for child in node.children:
        child.start = parent.end
    parent.rows.extend(node.rows)
    parent.children.extend(node.children)
