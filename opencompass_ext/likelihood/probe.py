"""Ask a model what it can do, by reading one short text in several ways.

What a class promises and what it does differ between families and releases, so each shortcut is
tried on the model at hand and compared with the plain way: one row, full logits. A shortcut that
gives other numbers is not used, and the log says so.
"""

from __future__ import annotations

import copy
import logging
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from opencompass_ext.errors import ModelError
from opencompass_ext.likelihood.forward import (
    HEAD_AT_POSITIONS,
    HEAD_BY_MASK,
    HEAD_EVERYWHERE,
    CausalForward,
    Targets,
    TokenScores,
)

logger = logging.getLogger(__name__)

PROBE_TOKENS = 12


class Traits(NamedTuple):
    """What a model allows.

    Attributes:
        head: How logits of chosen positions are had.
        needs_mask: Whether right padding must be masked.
        one_row: Whether rows must be read alone, since padding changes them even when masked.
        reuses_prefix: Whether a shared beginning can be read once.
    """

    head: str
    needs_mask: bool
    one_row: bool
    reuses_prefix: bool


def probe(model: nn.Module, token_ids: list[int]) -> Traits:
    """Find out what a model allows.

    Args:
        model: A causal LM.
        token_ids: Tokens of a real text, at least two; the first ones are read.

    Raises:
        ModelError: Later tokens change the scores of earlier ones.
    """
    ids = torch.tensor(token_ids[:PROBE_TOKENS])
    with torch.inference_mode():
        plain = CausalForward(model)
        reference = _score_row(plain, ids).nll
        same = _Comparison(reference, next(model.parameters()).dtype)
        if not same(_score_row(plain, ids[: len(ids) // 2 + 1]).nll):
            raise ModelError(
                f"{type(model).__name__} is no causal language model: what comes later in a text "
                "changes the scores of what comes before, as in an encoder such as BERT, so they "
                "are no likelihoods. Use a decoder, such as a Llama or Qwen model"
            )
        head = _find_head(model, ids, same)
        needs_mask, one_row = _find_padding(model, ids, same)
        reuses_prefix = _allows_prefix_reuse(model, ids, same)
    return Traits(head, needs_mask, one_row, reuses_prefix)


class _Comparison:
    """Whether NLLs equal the reference up to the noise of the dtype."""

    def __init__(self, reference: Tensor, dtype: torch.dtype) -> None:
        self.reference = reference
        # A wrong shortcut is off by a good part of a nat. Half precision alone by a few hundredths.
        self.tolerance = 1e-3 if dtype in (torch.float32, torch.float64) else 0.1

    def __call__(self, nll: Tensor, start: int = 0) -> bool:
        expected = self.reference[start : start + len(nll)].to(nll.device)
        return bool((nll - expected).abs().mean() <= self.tolerance)


def _find_head(model: nn.Module, ids: Tensor, same: _Comparison) -> str:
    for head in (HEAD_AT_POSITIONS, HEAD_BY_MASK):
        forward = CausalForward(model, head=head)
        if head == HEAD_BY_MASK and not forward.takes_logits_to_keep:
            continue
        if _works(head, model, lambda f=forward: same(_score_row(f, ids).nll)):
            return head
    logger.warning(
        "%s gives no logits at chosen positions: full logits are computed, with more memory",
        type(model).__name__,
    )
    return HEAD_EVERYWHERE


def _find_padding(model: nn.Module, ids: Tensor, same: _Comparison) -> tuple[bool, bool]:
    for needs_mask in (False, True):
        forward = CausalForward(model, needs_mask=needs_mask)
        if _works("right padding", model, lambda f=forward: same(_score_padded(f, ids))):
            return needs_mask, False
    logger.warning("%s: padding changes its scores; rows are read one by one", type(model).__name__)
    return False, True


def _allows_prefix_reuse(model: nn.Module, ids: Tensor, same: _Comparison) -> bool:
    start = len(ids) // 2
    forward = CausalForward(model)
    allowed = forward.cache_argument is not None and _works(
        "prefix reuse", model, lambda: same(_score_after_prefix(forward, ids, start), start)
    )
    if not allowed:
        logger.info("%s: shared beginnings are read again for every row", type(model).__name__)
    return allowed


def _works(what: str, model: nn.Module, attempt: Any) -> bool:
    try:
        return bool(attempt())
    except Exception as error:  # any failure of a shortcut means: do not use it
        logger.info("%s does not allow %s: %s", type(model).__name__, what, error)
        return False


def _score_row(forward: CausalForward, ids: Tensor) -> TokenScores:
    return forward.score(ids[None].to(forward.device), _all_targets(ids, forward.device))[0]


def _score_padded(forward: CausalForward, ids: Tensor) -> Tensor:
    """Score the first half of the row, padded to the length of the whole row beside it."""
    half = ids[: len(ids) // 2 + 1]
    padded = torch.stack([ids, torch.cat([half, ids.flip(0)[: len(ids) - len(half)]])])
    lengths = [len(ids), len(half)]
    targets = _all_targets(half, forward.device)
    targets = targets._replace(rows=torch.ones_like(targets.rows))
    return forward.score(padded.to(forward.device), targets, lengths=lengths)[0].nll


def _score_after_prefix(forward: CausalForward, ids: Tensor, start: int) -> Tensor:
    """Score the second half of the row from a cache of the first, twice side by side, padded."""
    device = forward.device
    nothing = Targets(*(torch.zeros(0, dtype=torch.long, device=device) for _ in range(3)))
    _, cache = forward.score(ids[None, :start].to(device), nothing, keep_cache=True)
    rest = _all_targets(ids[start:], device)
    # The cache must serve twice, as it does for several batches of one prefix.
    for _ in range(2):
        both = expand_cache(cache, rows=2)
        suffixes = torch.stack([ids[start:], ids[start:].flip(0)]).to(device)
        nll = forward.score(suffixes, rest, cache=both)[0].nll
    return nll


def expand_cache(cache: Any, rows: int) -> Any:
    """Return a copy of a one-row cache for ``rows`` rows; the original stays as it is."""
    copied = copy.deepcopy(cache)
    if rows > 1:
        copied.batch_repeat_interleave(rows)
    return copied


def _all_targets(ids: Tensor, device: torch.device) -> Targets:
    positions = torch.arange(len(ids) - 1, device=device)
    return Targets(torch.zeros_like(positions), positions, ids[1:].to(device))
