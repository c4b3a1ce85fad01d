"""Let a model generate nothing but JSON that a schema allows. Imports torch and llguidance.

After each token llguidance says which tokens may come next; all others are made impossible. So an
answer is valid as far as it goes: only one that is cut by ``max_out_len`` is not complete.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor

from opencompass_ext.errors import ConfigError, MissingDependencyError

try:
    import llguidance
    import llguidance.hf
except ModuleNotFoundError as error:
    if error.name != "llguidance":
        raise
    raise MissingDependencyError("llguidance", needed_for="json_schema", extra="judge") from error

# Blanks between the marks of JSON cost tokens, and a small model may write nothing else.
_COMPACT = {"whitespace_flexible": False}
# Reading a vocabulary takes a third of a second, and every batch needs it.
_vocabularies: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


class SchemaProcessor(LogitsProcessor):
    """Masks the logits of one batch, from its first new token on.

    Args:
        tokenizer: A fast tokenizer of transformers.
        vocab_size: Width of the logits, padding of the vocabulary included.
        end_ids: Tokens that end an answer; at least one.
        schema: A JSON Schema.

    Raises:
        ConfigError: The tokenizer is not a fast one, no token ends an answer, or the schema says
            something that cannot be enforced.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        vocab_size: int,
        end_ids: Sequence[int],
        schema: Mapping[str, Any],
    ) -> None:
        if not end_ids:
            raise ConfigError("json_schema needs a token that ends an answer; the model has none")
        self._vocab_size = vocab_size
        self._end_ids = list(end_ids)
        self._vocabulary = _vocabulary(tokenizer, vocab_size, tuple(end_ids))
        self._grammar = llguidance.LLMatcher.grammar_from_json_schema(
            json.dumps(schema), defaults=_COMPACT
        )
        problem = llguidance.LLMatcher.validate_grammar(self._grammar, self._vocabulary)
        if problem:
            raise ConfigError(f"json_schema cannot be enforced: {problem}")
        self._matchers: list[Any] = []

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> Any:
        """Return ``scores``, ``[batch, vocab]``, with minus infinity where a token may not come.

        Args:
            input_ids: ``[batch, tokens]``: the prompts, then what has been generated.
            scores: Logits of the next token.
        """
        if not self._matchers:
            self._matchers = [
                llguidance.LLMatcher(self._vocabulary, self._grammar) for _ in range(len(scores))
            ]
        else:
            for matcher, token in zip(self._matchers, input_ids[:, -1].tolist(), strict=True):
                if not matcher.is_stopped():
                    matcher.consume_token(token)
        allowed = np.stack([self._allowed(matcher) for matcher in self._matchers])
        return scores.masked_fill(~torch.from_numpy(allowed).to(scores.device), -torch.inf)

    def _allowed(self, matcher: Any) -> np.ndarray:
        """Return which tokens may come next, ``[vocab]``; those that end an answer when all is."""
        if matcher.is_error():
            # A token that the mask forbids was taken: beam search, which moves rows about, does so.
            raise ConfigError(
                f"json_schema does not go with these generation_kwargs: {matcher.get_error()}"
            )
        if matcher.is_stopped():
            ends = np.zeros(self._vocab_size, dtype=bool)
            ends[self._end_ids] = True
            return ends
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        # llguidance.torch would do this on the device, but compiles a kernel for it first.
        return np.unpackbits(bits, bitorder="little")[: self._vocab_size].astype(bool)


def _vocabulary(tokenizer: Any, vocab_size: int, end_ids: tuple[int, ...]) -> Any:
    known = _vocabularies.setdefault(tokenizer, {})
    if (vocab_size, end_ids) not in known:
        try:
            known[vocab_size, end_ids] = llguidance.hf.from_tokenizer(
                tokenizer, n_vocab=vocab_size, eos_token=list(end_ids)
            )
        except ValueError as error:
            raise ConfigError(f"json_schema cannot be enforced: {error}") from error
    return known[vocab_size, end_ids]
