"""Sentence embeddings of a Hugging Face encoder: the baseline for similarity of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opencompass_ext.models.options import as_plain_json, check_positive
from opencompass_ext.models.sources import check_source, local_source, source_identity

if TYPE_CHECKING:
    import numpy as np

    from opencompass_ext.models.embedding_encoder import MeanPoolingEncoder


class SentenceEmbedder:
    """Turns texts into vectors of length 1: the mean of the last hidden states of their tokens.

    That is how the sentence-transformers family is trained; folders of that family load as they
    are. Weights are loaded by ``load``, or by the first text.

    Args:
        path: A folder in Hugging Face's format, or a hub id.
        max_seq_len: Tokens that are read of a text; longer texts are cut there. None: what the
            model has positions for.
        batch_size: Texts per forward pass.
        model_kwargs: For ``AutoModel.from_pretrained``.
        tokenizer_kwargs: For ``AutoTokenizer.from_pretrained``.

    Raises:
        ConfigError: A number is no whole number of at least 1.
        ModelError: ``path`` names a folder that does not exist.
    """

    def __init__(
        self,
        path: str,
        max_seq_len: int | None = None,
        batch_size: int = 32,
        model_kwargs: Mapping[str, Any] | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        check_positive(max_seq_len=max_seq_len, batch_size=batch_size)
        check_source(path, "path")
        self.path = path
        self.max_seq_len = max_seq_len
        self.batch_size = batch_size
        self.model_kwargs = dict(model_kwargs or {})
        self.tokenizer_kwargs = dict(tokenizer_kwargs or {})

    def identity(self) -> dict[str, Any]:
        """Return all that decides the vectors, as plain JSON values."""
        return {
            "weights": source_identity(self.path, self.model_kwargs),
            "max_seq_len": self.max_seq_len,
            "model_kwargs": as_plain_json(self.model_kwargs),
            "tokenizer_kwargs": as_plain_json(self.tokenizer_kwargs),
        }

    def load(self) -> None:
        """Load the weights now, so that what is wrong with them is told before other work is done.

        Raises:
            ModelError: They cannot be loaded.
        """
        _ = self._encoder

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of ``texts``.

        Args:
            texts: Any texts; equal ones are read once.

        Returns:
            ``[len(texts), hidden_size]``, float32, each row of length 1.
        """
        return self._encoder.encode(texts, batch_size=self.batch_size)

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the cosine of the two texts of each pair, from -1 (opposite) to 1 (alike)."""
        import numpy as np

        order = {text: n for n, text in enumerate(dict.fromkeys(t for pair in pairs for t in pair))}
        vectors = self.embed(list(order))
        # Two unit vectors in float32 may reach past 1 by a rounding.
        return [
            float(np.clip(np.dot(vectors[order[a]], vectors[order[b]]), -1.0, 1.0))
            for a, b in pairs
        ]

    @cached_property
    def _encoder(self) -> MeanPoolingEncoder:
        from opencompass_ext.models.embedding_encoder import MeanPoolingEncoder

        return MeanPoolingEncoder.load(
            local_source(self.path),
            max_seq_len=self.max_seq_len,
            model_kwargs=self.model_kwargs,
            tokenizer_kwargs=self.tokenizer_kwargs,
        )
