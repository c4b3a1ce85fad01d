"""The base of models that score pieces of token ids: options, prefix, windows, spans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opencompass_ext.errors import ConfigError
from opencompass_ext.models.base import BaseModel
from opencompass_ext.models.options import check_choice, check_positive
from opencompass_ext.records import LabelledText, ScoredText

if TYPE_CHECKING:
    from opencompass_ext.likelihood.scorer import Backend
    from opencompass_ext.models.tokenizer import TextSide

LONG_TEXT_CHOICES = ("window", "truncate", "error")
PREFIX_CHOICES = ("auto", "bos", "eos", "bos_or_eos", "none")
# Alternatives that token details report.
TOP_K = 5


class SpanScoringModel(BaseModel):
    """Scores labelled texts with a tokenizer and whatever scores the token ids it makes.

    Args:
        max_seq_len: Tokens of one text read at once, prefix included; None: what the model takes.
        prefix_token: What stands before every text, never counted: ``"auto"`` (what the tokenizer
            puts there itself: BOS or nothing), ``"bos"``, ``"eos"``, ``"bos_or_eos"`` (the first
            that the tokenizer defines), ``"none"``, or a token id.
        long_text: What happens to a text longer than ``max_seq_len``: ``"window"`` scores every
            token in overlapping windows, ``"truncate"`` keeps the beginning, ``"error"`` refuses.
        stride: Tokens of context kept between windows, default half a window.
        meta_template: OpenCompass's role markers, put around the rounds of a dialogue template.

    Raises:
        ConfigError: An option has a value it cannot have.
    """

    def __init__(
        self,
        *,
        max_seq_len: int | None = None,
        prefix_token: str | int = "auto",
        long_text: str = "window",
        stride: int | None = None,
        meta_template: Mapping[str, Any] | None = None,
    ) -> None:
        check_choice("prefix_token", prefix_token, PREFIX_CHOICES, or_int=True)
        check_choice("long_text", long_text, LONG_TEXT_CHOICES)
        check_positive(max_seq_len=max_seq_len, stride=stride)
        self.max_seq_len = max_seq_len
        self.prefix_token = prefix_token
        self.long_text = long_text
        self.stride = stride
        self.meta_template = meta_template

    @property
    @abstractmethod
    def text_side(self) -> TextSide:
        """How texts become token ids; loads what that needs."""

    @abstractmethod
    def make_backend(self, *, batch_rows: int | None, token_details: bool) -> Backend:
        """Return what scores pieces of token ids; see ``BaseModel.score_spans``."""

    def text_options(self) -> Mapping[str, Any]:
        """Return the options of this class, for ``identity``: each of them decides scores."""
        return {
            "max_seq_len": self.max_seq_len,
            "prefix_token": self.prefix_token,
            "long_text": self.long_text,
            "stride": self.stride,
        }

    def score_spans(
        self,
        texts: Sequence[LabelledText],
        *,
        finished: Collection[int] = (),
        batch_rows: int | None = None,
        token_details: bool = False,
        prefix_token: str | None = None,
        long_text: str | None = None,
    ) -> Iterator[dict[int, ScoredText]]:
        """Yield scores by index as batches finish; see ``BaseModel.score_spans``."""
        from opencompass_ext.likelihood.scorer import ScorerOptions, SpanScorer

        if prefix_token is not None:
            check_choice("prefix_token", prefix_token, PREFIX_CHOICES)
        if long_text is not None:
            check_choice("long_text", long_text, LONG_TEXT_CHOICES)
        side = self.text_side
        options = ScorerOptions(
            prefix_ids=side.prefix_by(prefix_token),
            max_seq_len=side.max_seq_len,
            long_text=long_text or self.long_text,
            stride=self.stride,
            alone_above=side.alone_above,
            token_details=token_details,
        )
        _check_windows(options.max_text_tokens, options.window_stride)
        backend = self.make_backend(batch_rows=batch_rows, token_details=token_details)
        scorer = SpanScorer(side.encoder, backend, options)
        yield from scorer.score(texts, finished=finished)

    def get_token_len(self, prompt: str) -> int:
        """Return how many tokens ``prompt`` has, without any prefix token."""
        return len(self.text_side.encoder.encode([prompt])[0].ids)


def _check_windows(max_text_tokens: int | None, stride: int) -> None:
    if max_text_tokens is not None and max_text_tokens < 2:
        raise ConfigError(
            f"max_seq_len less the prefix token leaves {max_text_tokens} tokens of a text at once: "
            "a token cannot be predicted from the one before it with fewer than 2"
        )
    if max_text_tokens is not None and not stride < max_text_tokens:
        raise ConfigError(
            f"the model takes {max_text_tokens} tokens of a text at once (max_seq_len less the "
            f"prefix token), and stride={stride} of them are to be kept from one window to the "
            "next: stride must be smaller"
        )
