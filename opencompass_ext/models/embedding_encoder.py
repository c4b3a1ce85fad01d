"""Run an encoder of transformers and pool its last hidden states. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoModel

from opencompass_ext.errors import ModelError
from opencompass_ext.models.tokenizer import (
    LOADING_ERRORS,
    load_tokenizer,
    loading_failure,
    named_source,
    quiet_loading,
)


class MeanPoolingEncoder:
    """An encoder, its tokenizer, and the mean over the tokens of a text.

    Args:
        model: A model that gives ``last_hidden_state``, in eval mode.
        tokenizer: Its tokenizer; one without a padding token pads with what it has, as padding is
            masked.
        max_seq_len: Tokens that are read of a text, special ones included.
    """

    def __init__(self, model: Any, tokenizer: Any, max_seq_len: int) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_seq_len = max_seq_len

    @classmethod
    def load(
        cls,
        source: str,
        *,
        max_seq_len: int | None,
        model_kwargs: Mapping[str, Any],
        tokenizer_kwargs: Mapping[str, Any],
    ) -> MeanPoolingEncoder:
        """Load model and tokenizer from a folder or hub id.

        Raises:
            ModelError: They cannot be loaded.
        """
        arguments = {"trust_remote_code": False, "dtype": torch.float32, **model_kwargs}
        try:
            with quiet_loading():
                model = AutoModel.from_pretrained(source, **arguments)
        except LOADING_ERRORS as error:
            raise ModelError(
                f"cannot load the embedding model {named_source(source, arguments)!r}: "
                f"{loading_failure(error, model_kwargs=model_kwargs)}"
            ) from error
        tokenizer = load_tokenizer(source, dict(tokenizer_kwargs))
        if torch.cuda.is_available() and "device_map" not in arguments:
            model.to("cuda:0")
        return cls(model.eval(), tokenizer, _token_limit(model, tokenizer, max_seq_len))

    def encode(self, texts: Sequence[str], *, batch_size: int) -> np.ndarray:
        """Return one vector of length 1 per text, ``[len(texts), hidden_size]``, float32."""
        distinct = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        ids = [self._ids(text) for text in distinct]
        vectors = np.zeros((len(ids), int(self.model.config.hidden_size)), dtype=np.float32)
        # Texts of like length share a batch, so that little of it is padding.
        by_length = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        for start in range(0, len(by_length), batch_size):
            batch = by_length[start : start + batch_size]
            vectors[batch] = self._embed([ids[number] for number in batch])
        return vectors[[distinct[text] for text in texts]]

    def _ids(self, text: str) -> list[int]:
        # Tokenizers take no half of a surrogate pair, which JSON may hold.
        text = text.encode("utf-8", "replace").decode()
        encoded = self.tokenizer(text, truncation=True, max_length=self.max_seq_len)["input_ids"]
        # A blank text of a tokenizer that adds nothing still needs a token to be read.
        return encoded or [self.tokenizer.pad_token_id or self.tokenizer.eos_token_id or 0]

    @torch.inference_mode()
    def _embed(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        length = max(map(len, ids))
        tokens = torch.zeros((len(ids), length), dtype=torch.long)
        mask = torch.zeros((len(ids), length), dtype=torch.long)
        for row, row_ids in enumerate(ids):
            tokens[row, : len(row_ids)] = torch.tensor(row_ids)
            mask[row, : len(row_ids)] = 1
        device = self.model.device
        hidden = self.model(
            input_ids=tokens.to(device), attention_mask=mask.to(device)
        ).last_hidden_state
        weights = mask.to(device)[:, :, None].to(torch.float32)
        mean = (hidden.to(torch.float32) * weights).sum(dim=1) / weights.sum(dim=1)
        unit: np.ndarray = torch.nn.functional.normalize(mean, dim=1).cpu().numpy()
        return unit


def _token_limit(model: Any, tokenizer: Any, asked: int | None) -> int:
    """Return how many tokens of a text are read: never more than the model has positions for."""
    positions = getattr(model.config, "max_position_embeddings", None) or asked or 512
    # The tokenizer says so when it is meant to be less; what it says by default is huge.
    known = [int(positions), int(min(tokenizer.model_max_length, positions))]
    return min([*known, asked] if asked is not None else known)
