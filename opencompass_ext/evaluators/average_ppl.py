"""Inference-PPL: from the scored rows of a predictions file to the metrics of the data set."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from opencompass_ext.datasets.values import is_number
from opencompass_ext.errors import PredictionsError
from opencompass_ext.evaluators.answers import read_reason
from opencompass_ext.evaluators.base import BaseEvaluator
from opencompass_ext.evaluators.checks import check_resampling
from opencompass_ext.metrics.nll import (
    bits_per_byte,
    example_weighted_mean,
    mean_nll,
    mean_nll_interval,
    perplexity,
)
from opencompass_ext.registry import EVALUATORS

NOTE = (
    "average_ppl is OpenCompass's name for the token-weighted mean NLL in nats per token; "
    "perplexity is its exponential"
)


@EVALUATORS.register_module()
class AverageInferencePPLEvaluator(BaseEvaluator):
    """Mean NLL of the labelled tokens, and what a reader needs to judge it.

    Metrics, all lower is better: ``average_ppl`` (nats per token, token-weighted), ``perplexity``
    (its exponential), ``bits_per_byte``, ``example_weighted_mean`` (nats per token, every row
    alike). ``average_ppl_ci95`` is a bootstrap interval over rows. A metric without a value is
    None and ``reasons`` says why.

    A predictions file made by OpenCompass, with ``ppl`` and ``token_len`` only, is scored too:
    what cannot be known from it is None.

    Args:
        seed: Seed of the bootstrap.

    Raises:
        ConfigError: ``seed`` is no whole number of at least 0.

    Example:
        >>> results = AverageInferencePPLEvaluator().score(ppl=[2.0, 9.0], token_len=[4, 2])
        >>> round(results["average_ppl"], 4), results["example_weighted_mean"]
        (1.8333, 2.5)
    """

    def __init__(self, seed: int = 0) -> None:
        check_resampling(seed)
        self.seed = seed

    def score(
        self,
        ppl: Sequence[float | None],
        token_len: Sequence[int],
        byte_len: Sequence[int | None] | None = None,
        unscored_tokens: Sequence[int | None] | None = None,
        truncated_tokens: Sequence[int | None] | None = None,
        unaligned_chars: Sequence[int | None] | None = None,
        long_text: Sequence[str | None] | None = None,
        reason: Sequence[str | None] | None = None,
    ) -> dict[str, Any]:
        """Return the metrics, counts and details of one data set.

        Args:
            ppl: Summed NLL per row, nats; None where the model gave no number.
            token_len: Counted tokens per row.
            byte_len: UTF-8 bytes of the counted characters per row.
            unscored_tokens: Labelled tokens per row that nothing stands before.
            truncated_tokens: Labelled tokens per row lost because the text was cut.
            unaligned_chars: Labelled characters per row that no token owns.
            long_text: ``"whole"``, ``"window"`` or ``"truncate"`` per row.
            reason: Why ``ppl`` is None, per row.

        Raises:
            PredictionsError: A cell of a column is not a number that can be, or no text.
        """
        for name, column in (
            ("byte_len", byte_len),
            ("unscored_tokens", unscored_tokens),
            ("truncated_tokens", truncated_tokens),
            ("unaligned_chars", unaligned_chars),
        ):
            _check_counts(name, column)
        pairs = [_checked(i, *pair) for i, pair in enumerate(zip(ppl, token_len, strict=True))]
        nlls, tokens = [nll for nll, _ in pairs], [count for _, count in pairs]
        row_reasons = [
            None if nll is not None else (read_reason(given, row) or "non_finite_nll")
            for row, (nll, given) in enumerate(zip(nlls, reason or [None] * len(nlls), strict=True))
        ]
        metrics, reasons = _metrics(nlls, tokens, byte_len)
        interval = mean_nll_interval(nlls, tokens, seed=self.seed)
        if interval is None:
            reasons["average_ppl_ci95"] = "fewer_than_two_scored_rows"
        return {
            **metrics,
            "average_ppl_ci95": None if interval is None else list(interval),
            "reasons": reasons,
            "lower_is_better": list(metrics),
            "note": NOTE,
            "counts": {
                "rows": len(nlls),
                "scored_rows": sum(nll is not None and count > 0 for nll, count in pairs),
                "token_len": sum(count for nll, count in pairs if nll is not None),
                "unscored_tokens": _total(unscored_tokens),
                "truncated_tokens": _total(truncated_tokens),
                "unaligned_chars": _total(unaligned_chars),
                "windowed_rows": _count(long_text, "window"),
                "truncated_rows": _count(long_text, "truncate"),
                "null_rows": dict(Counter(r for r in row_reasons if r is not None)),
            },
            "details": [_detail(*row) for row in zip(nlls, tokens, row_reasons, strict=True)],
        }


def _metrics(
    nlls: Sequence[float | None], tokens: Sequence[int], byte_len: Sequence[int | None] | None
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Return the metrics, and the reason of each that is None."""
    metrics = {
        "average_ppl": mean_nll(nlls, tokens),
        "perplexity": None,
        "bits_per_byte": None,
        "example_weighted_mean": example_weighted_mean(nlls, tokens),
    }
    mean = metrics["average_ppl"]
    if mean is None:
        return metrics, dict.fromkeys(metrics, _why_nothing_counts(nlls))
    reasons = {}
    if math.isfinite(perplexity(mean)):
        metrics["perplexity"] = perplexity(mean)
    else:
        reasons["perplexity"] = "too_large_for_a_float"
    known_bytes = [count for count in byte_len or () if count is not None]
    if len(known_bytes) < len(nlls):
        reasons["bits_per_byte"] = "no_byte_len"
    elif (bits := bits_per_byte(nlls, known_bytes)) is None:
        reasons["bits_per_byte"] = "no_counted_byte"
    else:
        metrics["bits_per_byte"] = bits
    return metrics, reasons


def _why_nothing_counts(nlls: Sequence[float | None]) -> str:
    if not nlls:
        return "no_rows"
    return "no_finite_nll" if all(nll is None for nll in nlls) else "no_counted_token"


def _checked(row: int, nll: Any, tokens: Any) -> tuple[float | None, int]:
    """Return one row's NLL, None unless finite, and its token count."""
    if isinstance(nll, bool) or not isinstance(nll, (int, float, type(None))):
        raise PredictionsError(f"row {row}: 'ppl' must be a number or null, got {nll!r}")
    finite = float(nll) if is_number(nll) else None
    if tokens is None and finite is None:
        return None, 0
    if not _is_count(tokens):
        raise PredictionsError(f"row {row}: 'token_len' must be a whole number, got {tokens!r}")
    if finite and tokens == 0:
        raise PredictionsError(
            f"row {row}: 'ppl' is {nll!r} over 'token_len' 0: a sum over no token is 0"
        )
    return finite, int(tokens)


def _check_counts(name: str, column: Sequence[Any] | None) -> None:
    for row, count in enumerate(column or ()):
        if count is not None and not _is_count(count):
            raise PredictionsError(
                f"row {row}: {name!r} must be a whole number or null, got {count!r:.80}"
            )


def _is_count(value: Any) -> bool:
    # OpenCompass's files may hold whole numbers as floats.
    return is_number(value) and value >= 0 and value == value // 1


def _total(column: Sequence[int | None] | None) -> int | None:
    """Return the sum, or None when some of it is unknown."""
    known = [count for count in column or () if count is not None]
    return sum(known) if column is not None and len(known) == len(column) else None


def _count(column: Sequence[str | None] | None, value: str) -> int | None:
    return None if column is None else list(column).count(value)


def _detail(nll: float | None, tokens: int, reason: str | None) -> dict[str, Any]:
    mean = nll / tokens if nll is not None and tokens else None
    detail: dict[str, Any] = {"ppl": nll, "token_len": tokens, "mean_nll": mean}
    return detail if reason is None else {**detail, "reason": reason}
