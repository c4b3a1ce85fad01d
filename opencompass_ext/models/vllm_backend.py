"""Score pieces with the log-probabilities that vLLM reports for the tokens of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opencompass_ext.errors import ModelError
from opencompass_ext.likelihood.pieces import Piece, ScoredTargets
from opencompass_ext.models.piece_batches import PieceScores, join_scores, wanted_batches


class VLLMBackend:
    """Scores pieces with a function that has vLLM read prompts.

    Args:
        read: Takes prompts and the number of alternatives to report; returns vLLM's
            ``prompt_logprobs`` of each prompt.
        batch_prompts: Prompts per call.
        top_k: Alternatives per token to report; 0 for NLLs alone.
    """

    def __init__(
        self,
        read: Callable[[list[list[int]], int], Sequence[Any]],
        *,
        batch_prompts: int,
        top_k: int,
    ) -> None:
        self._read = read
        self._batch_prompts = batch_prompts
        self._top_k = top_k

    def run(
        self, pieces: Sequence[Piece], is_wanted: Callable[[int], bool] = lambda piece: True
    ) -> Iterator[ScoredTargets]:
        """Score all targets of the wanted pieces, and of no other."""
        for batch in wanted_batches(pieces, is_wanted, self._batch_prompts):
            answers = self._read([pieces[index].ids.tolist() for index in batch], self._top_k)
            scores = [
                read_prompt_logprobs(answer, pieces[index], self._top_k)
                for index, answer in zip(batch, answers, strict=True)
            ]
            yield join_scores(batch, scores)


def read_prompt_logprobs(
    answer: Sequence[Mapping[int, Any] | None] | None, piece: Piece, top_k: int
) -> PieceScores:
    """Turn vLLM's ``prompt_logprobs`` of one prompt into the scores of its targets.

    Args:
        answer: For each position a map from token id to an object with ``logprob`` and ``rank``,
            which holds the prompt's own token and the ``top_k`` likeliest; None for the first.
        piece: The prompt and the positions to score.
        top_k: Alternatives per position; 0 for none, and then no ranks either.

    Raises:
        ModelError: Positions or tokens are missing.

    Example:
        >>> from types import SimpleNamespace
        >>> entry = {4: SimpleNamespace(logprob=-2.5, rank=3)}
        >>> read_prompt_logprobs([None, entry], Piece(np.array([8, 4]), np.array([1])), 0).nll
        array([2.5])
    """
    if answer is None or len(answer) != len(piece.ids):
        raise ModelError(
            f"expected vLLM's prompt_logprobs of {len(piece.ids)} tokens, got "
            f"{'none' if answer is None else len(answer)}: if this version of vLLM leaves out what "
            "it has in its prefix cache, set model_kwargs=dict(enable_prefix_caching=False)"
        )
    own: list[Any] = []
    best: list[list[tuple[int, Any]]] = []
    for position in piece.targets.tolist():
        entry, token = answer[position], int(piece.ids[position])
        if entry is None or token not in entry:
            raise ModelError(
                f"vLLM's prompt_logprobs lack the prompt's own token {token} at position {position}"
            )
        own.append(entry[token])
        # The prompt's own token stands first, wherever it ranks.
        best.append(sorted(entry.items(), key=lambda item: -item[1].logprob)[:top_k])
    nll = -np.array([logprob.logprob for logprob in own], dtype=np.float64)
    if top_k == 0:
        return PieceScores(nll)
    return PieceScores(
        nll=nll,
        rank=np.array([logprob.rank for logprob in own], dtype=np.int64),
        top_ids=np.array([[token for token, _ in row] for row in best], dtype=np.int64),
        top_nll=-np.array([[x.logprob for _, x in row] for row in best], dtype=np.float64),
    )
