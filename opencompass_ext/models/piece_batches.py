"""Pieces in batches of a fixed number, and their scores as the columns the scorer takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opencompass_ext.likelihood.pieces import Piece, ScoredTargets
from opencompass_ext.likelihood.spans import IntArray


class PieceScores(NamedTuple):
    """Scores of all targets of one piece.

    Attributes:
        nll: float64 nats, ``[targets]``.
        rank: 1 for the likeliest token, ``[targets]``; or None.
        top_ids, top_nll: Best first, ``[targets, top_k]``; or None.
    """

    nll: NDArray[np.float64]
    rank: IntArray | None = None
    top_ids: IntArray | None = None
    top_nll: NDArray[np.float64] | None = None


def wanted_batches(
    pieces: Sequence[Piece], is_wanted: Callable[[int], bool], size: int
) -> list[list[int]]:
    """Return the indices of the wanted pieces, ``size`` at a time, neighbours together.

    Example:
        >>> pieces = [Piece(np.array([0, i]), np.array([1])) for i in range(5)]
        >>> wanted_batches(pieces, lambda i: i != 1, size=2)
        [[0, 2], [3, 4]]
    """
    wanted = [index for index in range(len(pieces)) if is_wanted(index)]
    return [wanted[start : start + size] for start in range(0, len(wanted), size)]


def join_scores(batch: Sequence[int], scores: Sequence[PieceScores]) -> ScoredTargets:
    """Return the scores of a batch as columns.

    Args:
        batch: Indices of the pieces.
        scores: Of each of these pieces; all with details, or none.

    Example:
        >>> two = PieceScores(np.array([0.5, 1.5]))
        >>> joined = join_scores([7, 9], [two, PieceScores(np.array([2.0]))])
        >>> joined.pieces, joined.slots, joined.nll
        (array([7, 7, 9]), array([0, 1, 0]), array([0.5, 1.5, 2. ]))
    """
    counts = [len(s.nll) for s in scores]
    return ScoredTargets(
        pieces=np.repeat(np.array(batch, dtype=np.int64), counts),
        slots=np.concatenate([np.arange(count) for count in counts]),
        nll=np.concatenate([s.nll for s in scores]),
        rank=_join([s.rank for s in scores]),
        top_ids=_join([s.top_ids for s in scores]),
        top_nll=_join([s.top_nll for s in scores]),
    )


def _join(columns: Sequence[NDArray | None]) -> NDArray | None:
    given = [column for column in columns if column is not None]
    return np.concatenate(given) if given else None
