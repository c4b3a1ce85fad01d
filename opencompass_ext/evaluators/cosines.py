"""Cosines by an embedding model: of sentences, or of a text and its sources as a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opencompass_ext.datasets.rag_rows import is_blank
from opencompass_ext.errors import ConfigError
from opencompass_ext.metrics.score import Score

if TYPE_CHECKING:
    from opencompass_ext.models.embedding import SentenceEmbedder


def make_embedder(embedding_model: Mapping[str, Any]) -> SentenceEmbedder:
    """Return the embedding model that a config describes; nothing is loaded yet.

    Raises:
        ConfigError: It has a key that ``SentenceEmbedder`` does not know, lacks ``path``, or has a
            value that cannot be.
        ModelError: ``path`` names a folder that does not exist.
    """
    # Here, as modules with registered classes load no model before they need one.
    from opencompass_ext.models.embedding import SentenceEmbedder

    try:
        return SentenceEmbedder(**embedding_model)
    except TypeError as error:
        raise ConfigError(f"embedding_model: {error}") from error


def nearest_cosines(
    texts: Sequence[str], sources: Sequence[Sequence[str]], embedding_model: Mapping[str, Any]
) -> list[Score]:
    """Return the cosine of each text and the nearest of its sources.

    Args:
        texts: The texts.
        sources: The sources of each text; blank ones are left out.
        embedding_model: ``path`` and the other arguments of ``SentenceEmbedder``.

    Returns:
        -1 to 1, higher is nearer; without a value where the text or all its sources are blank.

    Raises:
        ConfigError: ``embedding_model`` is not what it has to be.
        ModelError: The model cannot be loaded.
    """
    embedder = make_embedder(embedding_model)
    compared = [
        [] if is_blank(text) else [(text, source) for source in of_text if not is_blank(source)]
        for text, of_text in zip(texts, sources, strict=True)
    ]
    cosines = iter(embedder.cosines([pair for pairs in compared for pair in pairs]))
    return [
        Score(max(next(cosines) for _ in pairs)) if pairs else Score(None, "nothing_to_compare")
        for pairs in compared
    ]
