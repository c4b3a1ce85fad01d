"""What the model has to read: cut to its length, cut after the last target, and each text once.

    token ids of a text     t0 t1 t2 t3 t4 t5 t6      targets t2, t3
    piece                 B t0 t1 t2 t3               B = prefix token; what follows the last
                                                      target cannot change its prediction

A causal model predicts a token from what stands before it, so a piece that is the beginning of
another piece is read with it, for free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opencompass_ext.likelihood.spans import IntArray


class Window(NamedTuple):
    """A stretch of one text, and which of its tokens are scored there.

    Attributes:
        start, end: Token range of the stretch, half-open.
        targets: Indices in the text of the tokens scored in this window, ascending.
    """

    start: int
    end: int
    targets: IntArray


class Piece(NamedTuple):
    """Token ids to read, and the positions to score.

    Attributes:
        ids: Prefix and text tokens, ``[length]``.
        targets: Positions in ``ids`` to score, ascending, each >= 1.
    """

    ids: IntArray
    targets: IntArray


class ScoredTargets(NamedTuple):
    """Scores of some targets of some pieces, as columns of equal length.

    Attributes:
        pieces: Index of the piece, ``[targets]``.
        slots: Index among the piece's targets, ``[targets]``.
        nll: float64 nats, ``[targets]``.
        rank: ``[targets]``, or None.
        top_ids, top_nll: ``[targets, top_k]``, or None.
    """

    pieces: IntArray
    slots: IntArray
    nll: NDArray[np.float64]
    rank: IntArray | None
    top_ids: IntArray | None
    top_nll: NDArray[np.float64] | None


class Place(NamedTuple):
    """Where the scores of one window are found: in which piece, at which of its targets."""

    piece: int
    slots: IntArray


def cut_windows(
    targets: IntArray, tokens: int, max_tokens: int | None, stride: int, *, keep_tail: bool = False
) -> list[Window]:
    """Cover the targets with windows of at most ``max_tokens`` tokens, each target once.

    Windows begin every ``max_tokens - stride`` tokens. A target is scored in the first window that
    reaches it, so it has at least ``stride`` tokens before it, wherever the text has that many.
    Windows without a target are left out, and so is what follows the last target of a window.

    Args:
        targets: Token indices to score, ascending.
        tokens: Tokens in the text.
        max_tokens: Tokens the model takes at once; None for no limit.
        stride: Tokens of context kept from the window before, 0 <= stride < max_tokens.
        keep_tail: Keep what follows the last target of a window, for models that see the length of
            their input.

    Example:
        >>> windows = cut_windows(np.array([1, 3, 4, 7]), tokens=9, max_tokens=4, stride=2)
        >>> [(w.start, w.end, w.targets.tolist()) for w in windows]
        [(0, 4, [1, 3]), (2, 5, [4]), (4, 8, [7])]
    """
    if len(targets) == 0:
        return []
    if max_tokens is None or targets[-1] < max_tokens:
        start_of = np.zeros_like(targets)
    else:
        # Window k is [k*step, k*step + max_tokens); the first that holds token t has this k.
        step = max_tokens - stride
        start_of = np.maximum(0, -(-(targets + 1 - max_tokens) // step)) * step
    windows = []
    for start in np.unique(start_of).tolist():
        own = targets[start_of == start]
        end = int(own[-1]) + 1
        if keep_tail:
            end = tokens if max_tokens is None else min(tokens, start + max_tokens)
        windows.append(Window(start, end, own))
    return windows


def merge_pieces(
    pieces: Sequence[Piece], *, alone_above: int | None = None
) -> tuple[list[Piece], list[Place]]:
    """Join equal pieces, and pieces that are the beginning of another, uniting their targets.

    Args:
        pieces: Any pieces.
        alone_above: Pieces longer than this join only pieces of their own length: for models whose
            position encoding depends on the length of the whole input.

    Returns:
        The distinct pieces in lexicographic order of their ids, and for each input piece the place
        of its scores.

    Example:
        >>> ab = Piece(np.array([1, 2]), np.array([1]))
        >>> abc = Piece(np.array([1, 2, 3]), np.array([2]))
        >>> merged, places = merge_pieces([abc, ab, abc])
        >>> [(p.ids.tolist(), p.targets.tolist()) for p in merged]
        [([1, 2, 3], [1, 2])]
        >>> [place.slots.tolist() for place in places]
        [[1], [0], [1]]
    """
    # Big-endian bytes sort as the ids do.
    keys = [piece.ids.astype(">u4").tobytes() for piece in pieces]
    hosts: list[int] = []  # indices of the pieces that are read, in descending order of their keys
    host_of = [0] * len(pieces)
    for i in sorted(range(len(pieces)), key=lambda i: keys[i], reverse=True):
        # In this order a piece directly follows the pieces it is the beginning of.
        if not (
            hosts
            and _is_read_with(pieces[i], keys[i], pieces[hosts[-1]], keys[hosts[-1]], alone_above)
        ):
            hosts.append(i)
        host_of[i] = len(hosts) - 1
    wanted: list[list[IntArray]] = [[] for _ in hosts]
    for piece, host in zip(pieces, host_of, strict=True):
        wanted[host].append(piece.targets)
    targets = [np.unique(np.concatenate(parts)) for parts in wanted]
    last = len(hosts) - 1
    merged = [Piece(pieces[hosts[last - m]].ids, targets[last - m]) for m in range(len(hosts))]
    places = [
        Place(last - host, np.searchsorted(targets[host], piece.targets))
        for piece, host in zip(pieces, host_of, strict=True)
    ]
    return merged, places


def _is_read_with(
    piece: Piece, key: bytes, host: Piece, host_key: bytes, alone_above: int | None
) -> bool:
    if not host_key.startswith(key):
        return False
    longest = len(host.ids)
    return alone_above is None or longest <= alone_above or longest == len(piece.ids)
