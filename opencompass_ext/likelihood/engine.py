"""Run a model over pieces and score their targets: batches, shared beginnings, out of memory.

Pieces come in lexicographic order, so that shared beginnings stand side by side. Each piece is read
exactly once, and the order of batches depends on the pieces alone: a run that was interrupted makes
the same batches again, and so the same numbers.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils.memory import should_reduce_batch_size
from torch import nn

from opencompass_ext.errors import ModelError
from opencompass_ext.likelihood.batching import BatchLimits, make_batches
from opencompass_ext.likelihood.forward import (
    HEAD_AT_POSITIONS,
    CausalForward,
    Targets,
    TokenScores,
)
from opencompass_ext.likelihood.pieces import Piece, ScoredTargets
from opencompass_ext.likelihood.prefix import PrefixNode, prefix_tree, shared_lengths
from opencompass_ext.likelihood.probe import Traits, expand_cache
from opencompass_ext.likelihood.spans import IntArray

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineOptions:
    """How the engine spends memory and passes. Changes no number beyond float noise.

    Attributes:
        max_batch_tokens: Padded tokens per forward pass; None chooses by device.
        max_batch_rows: Most rows per forward pass; None for no limit.
        reuse_prefix: Whether shared beginnings are read once.
        top_k: Alternatives per token to report; None for none.
        alone_above: Rows with more tokens than this are read alone and share nothing: for models
            whose position encoding depends on the length of the input.
    """

    max_batch_tokens: int | None = None
    max_batch_rows: int | None = None
    reuse_prefix: bool = True
    top_k: int | None = None
    alone_above: int | None = None


class _Requests(NamedTuple):
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


# A shared beginning costs two forward passes more: its own, and that of its rows apart from others.
_TOKENS_PER_EXTRA_PASS = {"cpu": 96, "cuda": 2048}
# What CPU caches still hold the activations of, and what keeps a GPU busy without filling it up.
_BATCH_TOKENS = {"cpu": 512, "cuda": 16384}
# float32 logits and their log-softmax, of a chunk of positions.
_HEAD_BYTES = {"cpu": 64 * 2**20, "cuda": 1024 * 2**20}
# With fewer rows than this a matrix product reads its weights faster than it can use them.
_MIN_HEAD_POSITIONS = 128


class Engine:
    """Scores target tokens of pieces with one causal language model.

    Args:
        model: A causal LM of transformers, in eval mode, on its devices.
        traits: What the model allows, from ``probe``.
        options: See ``EngineOptions``.
    """

    def __init__(
        self, model: nn.Module, traits: Traits, options: EngineOptions | None = None
    ) -> None:
        self.traits = traits
        self.options = options or EngineOptions()
        embedding = model.get_input_embeddings().weight
        device = embedding.device.type if embedding.device.type in _BATCH_TOKENS else "cuda"
        head_positions = max(_MIN_HEAD_POSITIONS, _HEAD_BYTES[device] // (8 * embedding.shape[0]))
        self.limits = _make_limits(self.options, traits, _BATCH_TOKENS[device], head_positions)
        self._min_saved_tokens = _TOKENS_PER_EXTRA_PASS[device]
        self._forward = CausalForward(
            model,
            head=traits.head,
            needs_mask=traits.needs_mask,
            max_head_positions=head_positions,
            top_k=self.options.top_k,
        )
        self._out_of_memory_at: int | None = None

    def run(
        self, pieces: Sequence[Piece], is_wanted: Callable[[int], bool] = lambda piece: True
    ) -> Iterator[ScoredTargets]:
        """Score all targets of the wanted pieces, batch by batch.

        Args:
            pieces: Distinct pieces in lexicographic order, none the beginning of another.
            is_wanted: Batches without a wanted piece are left out. A batch with one is run whole:
                what a row is batched with moves the last digits of its score.

        Yields:
            The scores of one batch; while it is handed on, the device already works on the next.
        """
        behind: Iterator[ScoredTargets] | None = None
        for launched in self._launch_tree(pieces, self._plan(pieces), is_wanted):
            if behind is not None:
                yield from behind
            behind = launched
        if behind is not None:
            yield from behind

    def _plan(self, pieces: Sequence[Piece]) -> PrefixNode:
        if not (self.options.reuse_prefix and self.traits.reuses_prefix):
            return PrefixNode(rows=list(range(len(pieces))))
        shared = shared_lengths([piece.ids for piece in pieces])
        alone = [self._is_read_alone(piece) for piece in pieces]
        for i in range(1, len(pieces)):
            if alone[i] or alone[i - 1]:
                shared[i] = 0
        return prefix_tree(shared, min_saved_tokens=self._min_saved_tokens)

    def _launch_tree(
        self,
        pieces: Sequence[Piece],
        node: PrefixNode,
        is_wanted: Callable[[int], bool],
        cache: Any = None,
    ) -> Iterator[Iterator[ScoredTargets]]:
        if not any(is_wanted(piece) for piece in node.rows_below()):
            return
        if node.end > node.start:
            launched, cache = self._launch_prefix(pieces, node, cache)
            yield launched
        alone = [row for row in node.rows if self._is_read_alone(pieces[row])]
        together = {
            row: self._tokens_to_read(pieces[row]) - node.end
            for row in node.rows
            if not self._is_read_alone(pieces[row])
        }
        # A row of nothing but shared tokens and its last target has its score already.
        unread = {row: length for row, length in together.items() if length > 0}
        for batch in make_batches(unread, self.limits, prefix=node.end):
            if any(is_wanted(piece) for piece in batch):
                yield from self._launch_rows(pieces, batch, node.end, cache)
        if alone:
            yield from self._launch_alone(pieces, alone, is_wanted)
        for child in node.children:
            yield from self._launch_tree(pieces, child, is_wanted, cache)

    def _launch_prefix(
        self, pieces: Sequence[Piece], node: PrefixNode, cache: Any
    ) -> tuple[Iterator[ScoredTargets], Any]:
        """Read the tokens of a node once, and score what they predict for all rows below."""
        below = sorted(node.rows_below())
        requests = _requests(pieces, below, start=node.start, end=node.end)
        # Rows below share most of these tokens: score each (position, token) once.
        pairs = np.stack([requests.positions, requests.token_ids])
        (positions, token_ids), answers = np.unique(pairs, axis=1, return_inverse=True)
        targets = np.stack([np.zeros_like(positions), positions, token_ids])
        ids = pieces[below[0]].ids[None, node.start : node.end]
        own_cache = None if cache is None else expand_cache(cache, rows=1)
        try:
            scores, new_cache = self._forward_batch(
                ids, targets, cache=own_cache, keep_cache=True, lengths=None
            )
        except Exception as error:
            self._explain_if_out_of_memory(error, ids.shape[1])
            raise
        return _collect(requests, scores, answers), new_cache

    def _launch_rows(
        self, pieces: Sequence[Piece], batch: list[int], prefix: int, cache: Any
    ) -> Iterator[Iterator[ScoredTargets]]:
        """Read a batch of rows after their shared beginning; halve it when memory runs out."""
        lengths = [self._tokens_to_read(pieces[row]) - prefix for row in batch]
        tokens = len(batch) * max(lengths)
        is_known_too_large = self._out_of_memory_at is not None and tokens >= self._out_of_memory_at
        if not (is_known_too_large and len(batch) > 1):
            try:
                yield self._launch_batch(pieces, batch, lengths, prefix, cache)
                return
            except Exception as error:
                if len(batch) == 1:
                    self._explain_if_out_of_memory(error, tokens)
                if len(batch) == 1 or not should_reduce_batch_size(error):
                    raise
                self._out_of_memory_at = tokens
                logger.warning(
                    "out of memory at %d rows x %d tokens: the batch is halved",
                    len(batch),
                    max(lengths),
                )
            _free_memory()
        middle = (len(batch) + 1) // 2
        for half in (batch[:middle], batch[middle:]):
            yield from self._launch_rows(pieces, half, prefix, cache)

    def _launch_alone(
        self, pieces: Sequence[Piece], rows: list[int], is_wanted: Callable[[int], bool]
    ) -> Iterator[Iterator[ScoredTargets]]:
        """Read rows whose numbers depend on their own length, one by one.

        Dynamic rotary embeddings of transformers keep the frequencies of the longest row read so
        far until a short one resets them: hence a short one first, and then by ascending length.
        """
        nothing = np.zeros((3, 0), dtype=np.int64)
        self._forward_batch(pieces[rows[0]].ids[None, :1], nothing, lengths=None)
        for row in sorted(rows, key=lambda row: (len(pieces[row].ids), row)):
            if is_wanted(row):
                yield from self._launch_rows(pieces, [row], 0, None)

    def _launch_batch(
        self,
        pieces: Sequence[Piece],
        batch: list[int],
        lengths: list[int],
        prefix: int,
        cache: Any,
    ) -> Iterator[ScoredTargets]:
        ids = np.zeros((len(batch), max(lengths)), dtype=np.int64)
        for row, piece in enumerate(batch):
            ids[row, : lengths[row]] = pieces[piece].ids[prefix : prefix + lengths[row]]
        requests = _requests(pieces, batch, start=prefix, end=None)
        own_cache = None if cache is None else expand_cache(cache, rows=len(batch))
        targets = np.stack([requests.rows, requests.positions, requests.token_ids])
        scores, _ = self._forward_batch(ids, targets, cache=own_cache, lengths=lengths)
        return _collect(requests, scores, np.arange(len(requests.pieces)))

    def _forward_batch(
        self,
        ids: IntArray,
        targets: IntArray,
        *,
        lengths: list[int] | None,
        cache: Any = None,
        keep_cache: bool = False,
    ) -> tuple[TokenScores, Any]:
        device = self._forward.device
        columns = torch.from_numpy(targets).to(device, non_blocking=True)
        with torch.inference_mode():
            return self._forward.score(
                torch.from_numpy(ids).to(device, non_blocking=True),
                Targets(columns[0], columns[1], columns[2]),
                lengths=None if lengths is None else torch.tensor(lengths, device=device),
                cache=cache,
                keep_cache=keep_cache,
            )

    def _tokens_to_read(self, piece: Piece) -> int:
        """Return how many tokens have to be read: the last target itself predicts nothing asked."""
        return len(piece.ids) if self._is_read_alone(piece) else int(piece.targets[-1])

    def _is_read_alone(self, piece: Piece) -> bool:
        above = self.options.alone_above
        return above is not None and len(piece.ids) > above

    def _explain_if_out_of_memory(self, error: Exception, tokens: int) -> None:
        if should_reduce_batch_size(error):
            raise ModelError(
                f"out of memory on a single text of {tokens} tokens: lower max_seq_len (longer "
                "texts are then read in windows), use a smaller dtype, or give the model more GPUs "
                "(run_cfg.num_gpus)"
            ) from error


def _make_limits(
    options: EngineOptions, traits: Traits, device_tokens: int, head_positions: int
) -> BatchLimits:
    tokens = options.max_batch_tokens or device_tokens
    if traits.head != HEAD_AT_POSITIONS:
        # Logits of all targets, or of all tokens, of a batch exist at once.
        tokens = min(tokens, 8 * head_positions)
    rows = 1 if traits.one_row else options.max_batch_rows
    return BatchLimits(tokens=tokens, cache_tokens=4 * tokens, rows=rows)


def _requests(
    pieces: Sequence[Piece], batch: Sequence[int], *, start: int, end: int | None
) -> _Requests:
    """List the targets that positions ``[start, end)`` of the pieces predict."""
    columns: list[IntArray] = []
    for row, index in enumerate(batch):
        piece = pieces[index]
        first = int(np.searchsorted(piece.targets, start + 1))
        last = len(piece.targets) if end is None else int(np.searchsorted(piece.targets, end + 1))
        targets = piece.targets[first:last]
        slots = np.arange(first, last)
        same = np.ones_like(slots)
        columns.append(
            np.stack([index * same, slots, row * same, targets - 1 - start, piece.ids[targets]])
        )
    return _Requests(*np.concatenate(columns, axis=1))


def _collect(
    requests: _Requests, scores: TokenScores, answers: IntArray
) -> Iterator[ScoredTargets]:
    """Fetch scores from the device when asked, and not before: fetching waits for the device.

    Args:
        requests: What was asked.
        scores: What was answered; several requests may share an answer.
        answers: Index in ``scores`` of each request's answer.
    """

    def column(values: torch.Tensor | None, dtype: Any) -> Any:
        return None if values is None else values.cpu().numpy().astype(dtype)[answers]

    yield ScoredTargets(
        pieces=requests.pieces,
        slots=requests.slots,
        nll=column(scores.nll, np.float64),
        rank=column(scores.rank, np.int64),
        top_ids=column(scores.top_ids, np.int64),
        top_nll=column(scores.top_nll, np.float64),
    )


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
