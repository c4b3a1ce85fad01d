"""Inference-PPL: from summed NLLs and token counts to the numbers of the report.

All functions take one entry per row of the data set: ``nlls[i]`` is the *sum* of nats over the
counted tokens of row i (``ppl`` on disk), ``token_lens[i]`` how many tokens that sum covers. A row
whose NLL is None got no number from the model: it enters no sum, neither above nor below the line.

Source: the ``inference_ppl`` task of OpenCompass (Apache-2.0); its ``average_ppl`` is ``mean_nll``
here. Logarithms are natural; lower is better for every metric in this file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from opencompass_ext.metrics.bootstrap import bootstrap_interval
from opencompass_ext.metrics.mean import mean_of


def mean_nll(nlls: Sequence[float | None], token_lens: Sequence[int]) -> float | None:
    """Return the token-weighted mean NLL, sum of NLL over sum of tokens.

    Long rows weigh more than short ones; ``example_weighted_mean`` is the other choice.

    Args:
        nlls: Summed NLL per row, nats; None where the model gave no number.
        token_lens: Counted tokens per row.

    Returns:
        Nats per token, from 0 (every token certain) upwards, lower is better. None when no token
        is counted.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> mean_nll([2.0, 9.0], [4, 2]) == 11 / 6
        True
        >>> mean_nll([2.0, None], [4, 2])
        0.5
        >>> mean_nll([0.0, 0.0], [0, 0]) is None
        True
    """
    return _ratio_of_sums(nlls, token_lens)


def perplexity(mean: float) -> float:
    """Return exp of a mean NLL: how many equally likely tokens the model hesitates between.

    Args:
        mean: Nats per token.

    Returns:
        From 1 (every token certain) upwards, lower is better; infinity where a float ends, near
        710 nats per token.

    Example:
        >>> round(perplexity(math.log(50)), 6)
        50.0
    """
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf


def bits_per_byte(nlls: Sequence[float | None], byte_lens: Sequence[int]) -> float | None:
    """Return the NLL in bits per UTF-8 byte of the characters that the counted tokens stand for.

    Bytes, unlike tokens, are the same for every tokenizer, so this number compares models of
    different families.

    Args:
        nlls: Summed NLL per row, nats; None where the model gave no number.
        byte_lens: UTF-8 bytes per row.

    Returns:
        Bits per byte, 0 upwards, lower is better; 8 is a uniform guess over all byte values. None
        when no byte is counted.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> bits_per_byte([8 * math.log(2)], [4])
        2.0
    """
    nats_per_byte = _ratio_of_sums(nlls, byte_lens)
    return None if nats_per_byte is None else nats_per_byte / math.log(2)


def example_weighted_mean(nlls: Sequence[float | None], token_lens: Sequence[int]) -> float | None:
    """Return the mean over rows of each row's mean NLL: every row weighs the same.

    Rows without a counted token have no mean and are left out.

    Args:
        nlls: Summed NLL per row, nats; None where the model gave no number.
        token_lens: Counted tokens per row.

    Returns:
        Nats per token, 0 upwards, lower is better. None when no row has a counted token.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> example_weighted_mean([2.0, 9.0], [4, 2])
        2.5
    """
    return mean_of([nll / tokens for nll, tokens in _scored(nlls, token_lens)])


def mean_nll_interval(
    nlls: Sequence[float | None],
    token_lens: Sequence[int],
    *,
    seed: int,
    resamples: int = 1000,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Return a bootstrap interval of ``mean_nll``: percentiles of the ratio over resampled rows.

    Rows are the independent draws, not tokens, which depend on one another within a row. The
    interval depends on which rows there are and not on their order: they are sorted first.

    Args:
        nlls: Summed NLL per row, nats; None where the model gave no number.
        token_lens: Counted tokens per row.
        seed: Seed of the resampling; equal seeds give equal intervals.
        resamples: How many resampled sets; time grows as rows times this, memory does not.
        level: Share of the resampled ratios inside the interval.

    Returns:
        (low, high) in nats per token. None when fewer than two rows have a counted token: one row
        says nothing of how rows differ.

    Raises:
        ValueError: The two lists differ in length.

    Example:
        >>> mean_nll_interval([1.0, 2.0, 3.0], [2, 4, 6], seed=0)
        (0.5, 0.5)
        >>> low, high = mean_nll_interval([2.0, 9.0, 4.0], [4, 2, 4], seed=0)
        >>> low < mean_nll([2.0, 9.0, 4.0], [4, 2, 4]) < high
        True
    """
    scored = sorted(_scored(nlls, token_lens))
    sums, counts = np.asarray(scored, dtype=np.float64).reshape(-1, 2).T.copy()
    return bootstrap_interval(
        lambda drawn: (drawn @ sums) / (drawn @ counts),
        len(scored),
        seed=seed,
        resamples=resamples,
        level=level,
    )


def _ratio_of_sums(nlls: Sequence[float | None], sizes: Sequence[int]) -> float | None:
    scored = _scored(nlls, sizes)
    total = sum(size for _, size in scored)
    # fsum rounds once, so the order of the rows changes nothing, not even the last bit.
    return math.fsum(nll for nll, _ in scored) / total if total else None


def _scored(nlls: Sequence[float | None], sizes: Sequence[int]) -> list[tuple[float, int]]:
    return [
        (nll, size) for nll, size in zip(nlls, sizes, strict=True) if nll is not None and size > 0
    ]
