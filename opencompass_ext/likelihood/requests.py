"""What a batch is asked for, and how the answers come back from the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from opencompass_ext.likelihood.forward import TokenScores
from opencompass_ext.likelihood.pieces import Piece, ScoredTargets
from opencompass_ext.likelihood.spans import IntArray


class Requests(NamedTuple):
    """Tokens to score in one batch, as columns of equal length.

    Attributes:
        pieces, slots: Which target of which piece the score is for.
        rows, positions: The output position of the batch that predicts the token.
        token_ids: The token.
    """

    pieces: IntArray
    slots: IntArray
    rows: IntArray
    positions: IntArray
    token_ids: IntArray


def list_requests(
    pieces: Sequence[Piece], batch: Sequence[int], *, read: int, scored: int, end: int | None
) -> Requests:
    """List the targets that positions ``[scored, end)`` of the pieces predict.

    Args:
        pieces: All pieces.
        batch: Those of the batch, in the order of its rows.
        read: Tokens of each piece that are in the cache: where output positions count from.
        scored: Positions before this one have been seen to.
        end: Positions from here on are seen to later; None for no end.
    """
    columns: list[IntArray] = []
    for row, index in enumerate(batch):
        piece = pieces[index]
        first = int(np.searchsorted(piece.targets, scored + 1))
        last = len(piece.targets) if end is None else int(np.searchsorted(piece.targets, end + 1))
        targets = piece.targets[first:last]
        slots = np.arange(first, last)
        same = np.ones_like(slots)
        columns.append(
            np.stack([index * same, slots, row * same, targets - 1 - read, piece.ids[targets]])
        )
    return Requests(*np.concatenate(columns, axis=1))


def collect(requests: Requests, scores: TokenScores, answers: IntArray) -> Iterator[ScoredTargets]:
    """Let scores travel from the device while it works on, and hand them over when asked.

    Args:
        requests: What was asked.
        scores: What was answered; several requests may share an answer.
        answers: Index in ``scores`` of each request's answer.
    """
    columns = [c if c is None else c.to("cpu", non_blocking=True) for c in scores]
    arrival = None
    if scores.nll.is_cuda:
        # Waits for these copies alone, not for the batches launched after them.
        arrival = torch.cuda.current_stream(scores.nll.device).record_event()

    def deliver() -> Iterator[ScoredTargets]:
        if arrival is not None:
            arrival.synchronize()
        nll, rank, top_ids, top_nll = (c if c is None else c.numpy()[answers] for c in columns)
        assert nll is not None
        yield ScoredTargets(
            pieces=requests.pieces,
            slots=requests.slots,
            nll=nll.astype(np.float64),
            rank=rank,
            top_ids=top_ids,
            top_nll=None if top_nll is None else top_nll.astype(np.float64),
        )

    return deliver()
