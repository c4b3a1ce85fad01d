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
from opencompass_ext.likelihood.requests import collect, list_requests
from opencompass_ext.likelihood.spans import IntArray

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineOptions:
    """How the engine spends memory and passes. But for ``alone_above`` it changes no number.

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


class _Visit(NamedTuple):
    """A node still to be read, and the cache of what stands before it."""

    node: PrefixNode
    cache: Any
    owns_cache: bool


# A shared beginning costs two forward passes more: its own, and that of its rows apart from others.
_TOKENS_PER_EXTRA_PASS = {"cpu": 96, "cuda": 2048}
# What CPU caches still hold the activations of, and what keeps a GPU busy without filling it up.
_BATCH_TOKENS = {"cpu": 512, "cuda": 16384}
# float32 logits and their log-softmax, of a chunk of positions. Each below 32 MiB on a CPU: glibc
# fetches larger blocks from the system every time, which has to clear them.
_HEAD_BYTES = {"cpu": 48 * 2**20, "cuda": 1024 * 2**20}
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
            pieces: Distinct pieces in lexicographic order, as ``merge_pieces`` returns them.
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
        self, pieces: Sequence[Piece], root: PrefixNode, is_wanted: Callable[[int], bool]
    ) -> Iterator[Iterator[ScoredTargets]]:
        """Read the tree depth first: the tokens of a node, its rows, then the nodes below it."""
        todo = [_Visit(root, cache=None, owns_cache=True)]
        while todo:
            node, cache, owns_cache = todo.pop()
            if not any(is_wanted(piece) for piece in node.rows_below()):
                continue
            if node.end > node.start:
                # The last of several children may have the cache itself, so that a long chain of
                # nodes holds one cache and not one for every node.
                before = cache if owns_cache or cache is None else expand_cache(cache, rows=1)
                launched, cache = self._launch_prefix(pieces, node, before)
                del before
                if launched is None:
                    yield from self._launch_without_cache(pieces, node, is_wanted)
                    continue
                yield launched
            yield from self._launch_node_rows(pieces, node, is_wanted, cache)
            last = len(node.children) - 1
            todo += [
                _Visit(child, cache, owns_cache=i == last) for i, child in enumerate(node.children)
            ][::-1]

    def _launch_node_rows(
        self,
        pieces: Sequence[Piece],
        node: PrefixNode,
        is_wanted: Callable[[int], bool],
        cache: Any,
    ) -> Iterator[Iterator[ScoredTargets]]:
        """Read the rows of a node, those that must be alone after the others."""
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

    def _launch_without_cache(
        self, pieces: Sequence[Piece], node: PrefixNode, is_wanted: Callable[[int], bool]
    ) -> Iterator[Iterator[ScoredTargets]]:
        """Read all rows below a node from their first token, as its tokens fit no cache."""
        lengths = {row: self._tokens_to_read(pieces[row]) for row in node.rows_below()}
        for batch in make_batches(lengths, self.limits):
            if any(is_wanted(piece) for piece in batch):
                yield from self._launch_rows(pieces, batch, 0, None, scored=node.start)

    def _launch_prefix(
        self, pieces: Sequence[Piece], node: PrefixNode, cache: Any
    ) -> tuple[Iterator[ScoredTargets] | None, Any]:
        """Read the tokens of a node once, and score what they predict for all rows below.

        Returns:
            The scores and the cache afterwards; None and None when memory has run out.
        """
        below = sorted(node.rows_below())
        requests = list_requests(pieces, below, read=node.start, scored=node.start, end=node.end)
        # Rows below share most of these tokens: score each (position, token) once.
        base = int(requests.token_ids.max(initial=0)) + 1
        distinct, answers = np.unique(
            requests.positions * base + requests.token_ids, return_inverse=True
        )
        targets = np.stack([np.zeros_like(distinct), distinct // base, distinct % base])
        ids = pieces[below[0]].ids[None, node.start : node.end]
        try:
            scores, new_cache = self._forward_batch(ids, targets, cache=cache, keep_cache=True)
        except Exception as error:
            if not should_reduce_batch_size(error):
                raise
            logger.warning(
                "out of memory on a beginning of %d tokens that %d texts share: "
                "it is read again for each of them",
                node.end,
                len(below),
            )
        else:
            return collect(requests, scores, answers), new_cache
        free_memory()
        return None, None

    def _launch_rows(
        self,
        pieces: Sequence[Piece],
        batch: list[int],
        prefix: int,
        cache: Any,
        scored: int | None = None,
    ) -> Iterator[Iterator[ScoredTargets]]:
        """Read a batch of rows after their shared beginning; halve it when memory runs out.

        Args:
            pieces: All pieces.
            batch: The rows.
            prefix: Tokens of each row that are in the cache.
            cache: The cache of the shared beginning, or None.
            scored: Tokens of each row whose predictions are scored already; None for ``prefix``.
        """
        lengths = [self._tokens_to_read(pieces[row]) - prefix for row in batch]
        longest = prefix + max(lengths)
        tokens = len(batch) * longest
        is_known_too_large = self._out_of_memory_at is not None and tokens >= self._out_of_memory_at
        if not (is_known_too_large and len(batch) > 1):
            try:
                yield self._launch_batch(pieces, batch, lengths, prefix, cache, scored)
                return
            except Exception as error:
                if not should_reduce_batch_size(error):
                    raise
                if len(batch) == 1 and cache is None:
                    raise _single_text_too_long(longest) from error
                self._out_of_memory_at = tokens
                logger.warning(
                    "out of memory at %d rows x %d tokens: the batch is halved", len(batch), longest
                )
            free_memory()
        if len(batch) == 1:
            yield from self._launch_rows(pieces, batch, 0, None, scored=prefix)
            return
        middle = (len(batch) + 1) // 2
        for half in (batch[:middle], batch[middle:]):
            yield from self._launch_rows(pieces, half, prefix, cache, scored)

    def _launch_alone(
        self, pieces: Sequence[Piece], rows: list[int], is_wanted: Callable[[int], bool]
    ) -> Iterator[Iterator[ScoredTargets]]:
        """Read rows whose numbers depend on their own length, one by one.

        Dynamic rotary embeddings of transformers keep the frequencies of the longest row read so
        far until a short one resets them: hence a short one first, and then by ascending length.
        """
        nothing = np.zeros((3, 0), dtype=np.int64)
        self._forward_batch(pieces[rows[0]].ids[None, :1], nothing)
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
        scored: int | None,
    ) -> Iterator[ScoredTargets]:
        ids = np.empty((len(batch), max(lengths)), dtype=np.int64)
        for row, piece in enumerate(batch):
            own = pieces[piece].ids[prefix : prefix + lengths[row]]
            ids[row, : lengths[row]] = own
            # Padded with a token of its own: what another token does to the model is not its fault.
            ids[row, lengths[row] :] = own[-1]
        requests = list_requests(
            pieces, batch, read=prefix, scored=prefix if scored is None else scored, end=None
        )
        own_cache = None if cache is None else expand_cache(cache, rows=len(batch))
        targets = np.stack([requests.rows, requests.positions, requests.token_ids])
        scores, _ = self._forward_batch(ids, targets, cache=own_cache, lengths=lengths)
        return collect(requests, scores, np.arange(len(requests.pieces)))

    def _forward_batch(
        self,
        ids: IntArray,
        targets: IntArray,
        *,
        lengths: list[int] | None = None,
        cache: Any = None,
        keep_cache: bool = False,
    ) -> tuple[TokenScores, Any]:
        device = self._forward.device
        columns = torch.from_numpy(targets).to(device, non_blocking=True)
        with torch.inference_mode():
            return self._forward.score(
                torch.from_numpy(ids).to(device, non_blocking=True),
                Targets(columns[0], columns[1], columns[2]),
                lengths=lengths,
                cache=cache,
                keep_cache=keep_cache,
            )

    def _tokens_to_read(self, piece: Piece) -> int:
        """Return how many tokens have to be read: the last target itself predicts nothing asked."""
        return len(piece.ids) if self._is_read_alone(piece) else int(piece.targets[-1])

    def _is_read_alone(self, piece: Piece) -> bool:
        above = self.options.alone_above
        return above is not None and len(piece.ids) > above


def _single_text_too_long(tokens: int) -> ModelError:
    return ModelError(
        f"out of memory on a single text of {tokens} tokens: lower max_seq_len (longer texts are "
        "then read in windows), use a smaller dtype, or give the model more GPUs (run_cfg.num_gpus)"
    )


def _make_limits(
    options: EngineOptions, traits: Traits, device_tokens: int, head_positions: int
) -> BatchLimits:
    tokens = options.max_batch_tokens or device_tokens
    if traits.head != HEAD_AT_POSITIONS:
        # Logits of all targets, or of all tokens, of a batch exist at once.
        tokens = min(tokens, 8 * head_positions)
    rows = 1 if traits.one_row else options.max_batch_rows
    return BatchLimits(tokens=tokens, cache_tokens=16 * tokens, rows=rows)


def free_memory() -> None:
    """Let go of what a pass that has run out of memory has left, before a smaller one is tried."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
