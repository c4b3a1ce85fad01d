"""One forward pass that returns the NLL of chosen tokens and never holds more logits than needed.

    input_ids      B  t0 t1 t2 t3        position p of the output predicts token p + 1
    scored             t1       t3       so the head is applied at positions 1 and 3 only

Most of a causal model's memory goes into logits ``[batch, length, vocabulary]`` of which a score
needs a few rows. Here the trunk runs once, and the head over a few positions at a time.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# Ways to get logits: the trunk once and the head at chosen positions in chunks; the model's own
# logits_to_keep; or all logits.
HEAD_AT_POSITIONS = "at_positions"
HEAD_BY_MASK = "logits_to_keep"
HEAD_EVERYWHERE = "everywhere"


class TokenScores(NamedTuple):
    """What the model thought of some target tokens, on its device.

    Attributes:
        nll: float32 nats, ``[targets]``.
        rank: 1 for the most likely token of the vocabulary, ``[targets]``; None unless asked for.
        top_ids: The most likely token ids, best first, ``[targets, top_k]``; or None.
        top_nll: Their NLLs in nats, ``[targets, top_k]``; or None.
    """

    nll: Tensor
    rank: Tensor | None = None
    top_ids: Tensor | None = None
    top_nll: Tensor | None = None


class Targets(NamedTuple):
    """Which tokens to score in a batch ``[rows, length]``.

    Attributes:
        rows, positions: The output position that predicts the token, ``[targets]``. A position may
            stand more than once, with different tokens.
        token_ids: The token to score there, ``[targets]``.
    """

    rows: Tensor
    positions: Tensor
    token_ids: Tensor


def score_logits(logits: Tensor, token_ids: Tensor, top_k: int | None) -> TokenScores:
    """Return the scores of one token per row of logits.

    The log-sum-exp is taken in float32 whatever the model's dtype: in bfloat16 it would lose two
    of three digits.

    Args:
        logits: ``[targets, vocab]``.
        token_ids: ``[targets]``.
        top_k: How many alternatives to report with the rank; None for NLLs alone.

    Example:
        >>> scores = score_logits(torch.zeros(1, 4), torch.tensor([2]), top_k=1)
        >>> round(scores.nll.item(), 4), scores.rank.item()
        (1.3863, 1)
    """
    logits = logits.float()
    # Fused, and several times faster than logsumexp, which goes over the vocabulary five times.
    nll = torch.nn.functional.cross_entropy(logits, token_ids, reduction="none")
    if top_k is None:
        return TokenScores(nll)
    target = logits.gather(-1, token_ids[:, None])
    rank = (logits > target).sum(dim=-1) + 1
    top = logits.topk(min(top_k, logits.shape[-1]), dim=-1)
    return TokenScores(nll, rank, top.indices, nll[:, None] + target - top.values)


def concatenate(parts: list[TokenScores]) -> TokenScores:
    """Join the scores of consecutive chunks of targets."""
    columns = zip(*parts, strict=True)
    return TokenScores(*(None if c[0] is None else torch.cat(c) for c in columns))


class CausalForward:
    """A causal language model seen as a scorer of chosen tokens.

    Args:
        model: A causal LM of transformers, in eval mode.
        head: One of the three ways above to get logits; ``probe`` finds out which one a model
            allows.
        needs_mask: Whether right padding has to be masked. Causal attention never looks right, so
            most models need none, and without a mask the fused causal kernel runs.
        max_head_positions: Positions the head is applied to at once.
        top_k: Alternatives per token; None to report NLLs alone.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        head: str = HEAD_EVERYWHERE,
        needs_mask: bool = False,
        max_head_positions: int = 256,
        top_k: int | None = None,
    ) -> None:
        self.model = model
        self.head = head
        self.needs_mask = needs_mask
        self.max_head_positions = max_head_positions
        self.top_k = top_k
        parameters = inspect.signature(model.forward).parameters
        # transformers 5 renamed the argument; the old name goes with 5.40.
        self.cache_argument = next(
            (name for name in ("cache", "past_key_values") if name in parameters), None
        )
        self.takes_logits_to_keep = "logits_to_keep" in parameters

    @property
    def device(self) -> torch.device:
        """Device the token ids go to."""
        device = self.model.get_input_embeddings().weight.device
        # accelerate fetches offloaded weights when they are needed, and moves the ids to them.
        return torch.device("cpu") if device.type == "meta" else device

    def score(
        self,
        input_ids: Tensor,
        targets: Targets,
        *,
        lengths: Sequence[int] | None = None,
        cache: Any = None,
        keep_cache: bool = False,
    ) -> tuple[TokenScores, Any]:
        """Read a batch and score the targets.

        Args:
            input_ids: ``[rows, length]``, right-padded with any valid id.
            targets: What to score.
            lengths: Real tokens of each row; needed where a mask is.
            cache: Keys and values of what stands before, for all rows.
            keep_cache: Whether the cache is wanted afterwards.

        Returns:
            The scores in the order of the targets, and the cache (None unless wanted).
        """
        arguments: dict[str, Any] = {"input_ids": input_ids}
        if self.needs_mask and lengths is not None and cache is None:
            columns = torch.arange(input_ids.shape[1], device=input_ids.device)
            ends = torch.tensor(lengths, device=input_ids.device)
            arguments["attention_mask"] = (columns < ends[:, None]).long()
        if self.cache_argument is not None:
            arguments["use_cache"] = keep_cache or cache is not None
            if cache is not None:
                arguments[self.cache_argument] = cache
        read = {
            HEAD_AT_POSITIONS: self._read_trunk,
            HEAD_BY_MASK: self._read_masked,
            HEAD_EVERYWHERE: self._read_everywhere,
        }[self.head]
        scores, output = read(arguments, targets)
        new_cache = (
            getattr(output, self.cache_argument) if keep_cache and self.cache_argument else None
        )
        return scores, new_cache

    def _read_trunk(self, arguments: dict[str, Any], targets: Targets) -> tuple[TokenScores, Any]:
        output = self.model.base_model(**arguments)
        hidden = output.last_hidden_state
        rows, positions, token_ids = (column.to(hidden.device) for column in targets)
        parts = []
        for part in _chunks(len(rows), self.max_head_positions):
            logits = _apply_head(self.model, hidden[rows[part], positions[part]])
            parts.append(score_logits(logits, token_ids[part].to(logits.device), self.top_k))
        return concatenate(parts), output

    def _read_masked(self, arguments: dict[str, Any], targets: Targets) -> tuple[TokenScores, Any]:
        rows, length = arguments["input_ids"].shape
        wanted, row_of_logits = torch.unique(
            targets.rows * length + targets.positions, return_inverse=True
        )
        mask = torch.zeros(rows * length, dtype=torch.bool, device=wanted.device)
        mask[wanted] = True
        output = self.model(**arguments, logits_to_keep=mask.view(rows, length))
        logits = output.logits.reshape(-1, output.logits.shape[-1])
        return self._score_rows(logits, row_of_logits, targets.token_ids), output

    def _read_everywhere(
        self, arguments: dict[str, Any], targets: Targets
    ) -> tuple[TokenScores, Any]:
        output = self.model(**arguments)
        logits = output.logits.reshape(-1, output.logits.shape[-1])
        rows = targets.rows * arguments["input_ids"].shape[1] + targets.positions
        return self._score_rows(logits, rows, targets.token_ids), output

    def _score_rows(self, logits: Tensor, rows: Tensor, token_ids: Tensor) -> TokenScores:
        rows, token_ids = rows.to(logits.device), token_ids.to(logits.device)
        return concatenate(
            [
                score_logits(logits[rows[part]], token_ids[part], self.top_k)
                for part in _chunks(len(rows), self.max_head_positions)
            ]
        )


def _chunks(count: int, size: int) -> list[slice]:
    # At least one chunk, so that a batch without targets gives empty scores of the right type.
    return [slice(start, start + size) for start in range(0, max(1, count), size)]


def _apply_head(model: nn.Module, hidden: Tensor) -> Tensor:
    """Return the model's logits for hidden states ``[positions, width]``.

    The model's own forward runs with its trunk replaced by these states, so that whatever it does
    after the trunk (soft caps, scales, biases) is done here too. Meanwhile the model must not be
    used by another thread.
    """
    with _trunk_returning(model, hidden[None]):
        dummy = torch.zeros(1, hidden.shape[0], dtype=torch.long, device=hidden.device)
        return model(input_ids=dummy, use_cache=False).logits[0]


@contextmanager
def _trunk_returning(model: nn.Module, hidden: Tensor) -> Iterator[None]:
    name = model.base_model_prefix
    trunk = model._modules[name]
    model._modules[name] = _ReadyTrunk(hidden)
    try:
        yield
    finally:
        model._modules[name] = trunk


class _ReadyTrunk(nn.Module):
    """Stands where the trunk stood and returns ready hidden states, however it is called."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        # In a tuple, for a module would register a bare tensor that is a parameter.
        self._hidden = (hidden,)

    def __getattr__(self, name: str) -> Any:
        # Some models call a part of their trunk, such as OPT's model.decoder.
        if name.startswith("_"):
            return super().__getattr__(name)
        return self

    def forward(self, *args: Any, **kwargs: Any) -> _ReadyOutput:
        return _ReadyOutput(self._hidden[0])


class _ReadyOutput:
    """A trunk's output that holds hidden states and nothing else."""

    def __init__(self, hidden: Tensor) -> None:
        self.last_hidden_state = hidden

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, index: Any) -> Any:
        return (self.last_hidden_state,)[index]
