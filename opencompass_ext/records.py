"""The records that travel between the stages, and their names on disk.

In code a likelihood is an ``nll``: a *sum* of nats. On disk it is called ``ppl``, because that is
what OpenCompass's readers look for. The translation between the two is ``likelihood_to_row`` and
stands nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from opencompass_ext.errors import DataError

Span = tuple[int, int]
Message = Mapping[str, str]
"""One turn of a chat: ``{"role": "user", "content": "..."}``."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and the character ranges of it whose likelihood is asked for.

    Attributes:
        text: The whole text the model reads.
        spans: Name -> half-open ``[start, end)`` ranges in characters of ``text``. Ranges may touch
            or overlap: within one name a token counts once.
        cuts: Offsets, ascending, at which the text is cut for the tokenizer: what lies between two
            cuts is tokenised apart and the token ids are joined, so that a part has the same ids
            whatever stands before it.

    Raises:
        DataError: A range is reversed, lies outside the text, or is not made of integers; the same
            for a cut.
    """

    text: str
    spans: Mapping[str, tuple[Span, ...]]
    cuts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for ranges in self.spans.values():
            for span in ranges:
                _check_span(span, len(self.text))
        edges = (0, *self.cuts, len(self.text))
        for pair in pairwise(edges):
            _check_span(pair, len(self.text))


def _check_span(span: Any, text_length: int) -> None:
    are_integers = len(span) == 2 and all(type(edge) is int for edge in span)
    if not are_integers or not 0 <= span[0] <= span[1] <= text_length:
        raise DataError(
            f"a span is [start, end) with whole numbers 0 <= start <= end <= {text_length}, the "
            f"length of the text; got {list(span)}"
        )


@dataclass(frozen=True, slots=True)
class TokenDetails:
    """What the model thought of each counted token of one span name, as columns of equal length.

    Attributes:
        start, end: Character range of the token in the text, half-open.
        nll: Nats, >= 0.
        rank: 1 when the model held no token for more likely.
        top_tokens: The most likely tokens at this place as text, best first.
        top_nll: Their NLLs in nats.
    """

    start: list[int]
    end: list[int]
    nll: list[float]
    rank: list[int]
    top_tokens: list[list[str]]
    top_nll: list[list[float]]


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Likelihood of the labelled part of one text.

    Attributes:
        nll: Nats, summed over the counted tokens; 0.0 when none is counted, NaN or infinite when
            the model gave no number.
        token_len: How many tokens ``nll`` sums over.
        byte_len: UTF-8 bytes of the characters those tokens stand for.
        unscored_tokens: Labelled tokens that nothing stands before, so no prediction exists.
        truncated_tokens: Labelled tokens lost because the text was cut.
        unaligned_chars: Labelled characters that no token owns.
        token_details: One entry per counted token, when asked for.
    """

    nll: float
    token_len: int
    byte_len: int = 0
    unscored_tokens: int = 0
    truncated_tokens: int = 0
    unaligned_chars: int = 0
    token_details: TokenDetails | None = None


@dataclass(frozen=True, slots=True)
class ScoredText:
    """Likelihoods of one ``LabelledText``, by span name.

    Attributes:
        spans: Name -> likelihood, the names of the ``LabelledText``.
        text_tokens: Length of the text in tokens, without any prefix token.
        long_text: ``"whole"``, or how a text longer than the model was treated: ``"window"`` or
            ``"truncate"``.
    """

    spans: Mapping[str, Likelihood]
    text_tokens: int
    long_text: str = "whole"


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """What a model is to answer.

    Attributes:
        prompt: A text to go on with, or the messages of a chat.
        row: The row of the data set, for a system that answers by the row's id.
    """

    prompt: str | tuple[Message, ...]
    row: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """What a model answered.

    Attributes:
        text: The answer, without stop words and special tokens.
        input_tokens: Tokens of the prompt as the model read it; None when unknown.
        output_tokens: Tokens generated, an end-of-text token included; None when unknown.
        finish_reason: ``"stop"``, or ``"length"`` when the limit of tokens cut the answer; None
            when unknown.
        sources: What the system retrieved for the answer, where it says so.
    """

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    sources: list[Any] | None = None


def likelihood_to_row(likelihood: Likelihood, long_text: str) -> dict[str, Any]:
    """Return a likelihood under its names on disk, as plain JSON values.

    A sum that is not a finite number becomes null with a reason: JSON has no NaN, and a reader
    must not mistake it for a score.

    Example:
        >>> row = likelihood_to_row(Likelihood(nll=2.0, token_len=4, byte_len=9), "whole")
        >>> row["ppl"], row["token_len"]
        (2.0, 4)
        >>> likelihood_to_row(Likelihood(nll=float("nan"), token_len=4), "whole")["reason"]
        'non_finite_nll'
    """
    is_finite = math.isfinite(likelihood.nll)
    row: dict[str, Any] = {
        "ppl": float(likelihood.nll) if is_finite else None,
        "token_len": int(likelihood.token_len),
        "byte_len": int(likelihood.byte_len),
        "unscored_tokens": int(likelihood.unscored_tokens),
        "truncated_tokens": int(likelihood.truncated_tokens),
        "unaligned_chars": int(likelihood.unaligned_chars),
        "long_text": long_text,
        "reason": None if is_finite else "non_finite_nll",
    }
    if likelihood.token_details is not None:
        row["token_details"] = _token_details_to_json(likelihood.token_details)
    return row


def _token_details_to_json(details: TokenDetails) -> dict[str, Any]:
    # Six decimals are finer than the noise between two batchings of a float32 model.
    def rounded(nlls: list[float]) -> list[float | None]:
        return [round(x, 6) if math.isfinite(x) else None for x in nlls]

    return {
        "start": details.start,
        "end": details.end,
        "nll": rounded(details.nll),
        "rank": details.rank,
        "top_tokens": details.top_tokens,
        "top_nll": [rounded(nlls) for nlls in details.top_nll],
    }


class RowRange(NamedTuple):
    """Some rows of a dataset: ``[start, stop)`` of its ``total`` test rows.

    Example:
        >>> f"{RowRange(0, 100, 250)}"
        '[0:100]'
    """

    start: int
    stop: int
    total: int

    def __str__(self) -> str:
        return f"[{self.start}:{self.stop}]"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One unit of work: one model on some datasets, at one stage. Plain data, so JSON can carry it.

    Attributes:
        type: Registered name of the task class, such as ``"OpenICLInferTask"``.
        model: Config of the model.
        datasets: Configs of the datasets.
        run_folder: The folder ``<work_dir>/<time>`` that all files of the run are under.
        options: Further keyword arguments of the task class.
        rows: For each dataset the rows that are meant, None for all; empty when all are whole.
    """

    type: str
    model: Mapping[str, Any]
    datasets: tuple[Mapping[str, Any], ...]
    run_folder: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[RowRange | None, ...] = ()

    @property
    def pieces(self) -> list[tuple[Mapping[str, Any], RowRange | None]]:
        """Each dataset with the rows that are meant, None for all."""
        return list(zip(self.datasets, self.rows or (None,) * len(self.datasets), strict=True))

    @property
    def name(self) -> str:
        """Name for people, in OpenCompass's form ``OpenICLInfer[model/dataset,...]``.

        A dataset that is not meant whole has its rows behind it: ``[model/dataset[0:100]]``.
        """
        model = self.model["abbr"]
        pairs = ",".join(f"{model}/{d['abbr']}{rows or ''}" for d, rows in self.pieces)
        return f"{self.type.rpartition('.')[2].removesuffix('Task')}[{pairs}]"

    @property
    def num_procs(self) -> int:
        """Worker processes that share the rows of the model's datasets."""
        return int(self.model.get("run_cfg", {}).get("num_procs", 1))

    @property
    def num_gpus(self) -> int:
        """GPUs that one worker process of the task holds: those of the model, shared out."""
        return int(self.model.get("run_cfg", {}).get("num_gpus", 0)) // self.num_procs


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a task ended.

    Attributes:
        task: The task.
        status: ``"done"``, ``"failed"``, ``"interrupted"``, or ``"skipped"`` when it was never
            started because another had failed.
        error: Last line of the error, for the summary; None when done.
        log: Path of the task's log.
        seconds: Wall time.
    """

    task: TaskSpec
    status: str
    error: str | None = None
    log: str | None = None
    seconds: float = 0.0
