"""The tree of shared beginnings, against a trie."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.likelihood.prefix import prefix_tree, shared_lengths

rows_strategy = st.sets(
    st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple), max_size=14
).map(sorted)


def tokens_read(node, rows):
    own = node.end - node.start + sum(len(rows[row]) - node.end for row in node.rows)
    return own + sum(tokens_read(child, rows) for child in node.children)


def nodes(node):
    yield node
    for child in node.children:
        yield from nodes(child)


@given(rows_strategy, st.integers(1, 8))
def test_each_row_stands_once_below_tokens_it_shares(rows, min_saved_tokens):
    root = prefix_tree(
        shared_lengths([np.array(r) for r in rows]), min_saved_tokens=min_saved_tokens
    )
    assert sorted(root.rows_below()) == list(range(len(rows)))
    for node in nodes(root):
        below = [rows[row] for row in node.rows_below()]
        assert all(row[: node.end] == below[0][: node.end] for row in below)
        assert all(child.start == node.end for child in node.children)
        assert node is root or node.saved_tokens >= min_saved_tokens


@given(rows_strategy)
def test_reads_every_shared_token_once_when_all_savings_count(rows):
    root = prefix_tree(shared_lengths([np.array(r) for r in rows]), min_saved_tokens=1)
    trie = {row[:length] for row in rows for length in range(1, len(row) + 1)}
    assert tokens_read(root, rows) == len(trie)


def test_nothing_shared_leaves_a_root_with_all_rows():
    root = prefix_tree([0, 0, 0], min_saved_tokens=1)
    assert root.rows == [0, 1, 2]
    assert root.children == []
