"""Generate answers in batches with a causal language model. Imports torch.

    prompts --sort by length--> batches --left padding--> model.generate --cut--> answers

Which prompts share a batch depends on all of them, not on those that are left to do: an interrupted
run that goes on meets the same batches.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from accelerate.utils.memory import should_reduce_batch_size
from transformers import GenerationConfig, LogitsProcessorList

from opencompass_ext.errors import ConfigError, ModelError, TextError
from opencompass_ext.likelihood.batching import BatchLimits, make_batches
from opencompass_ext.likelihood.engine import free_memory
from opencompass_ext.likelihood.spans import IntArray
from opencompass_ext.models.tokenizer import quiet_loading
from opencompass_ext.records import GeneratedText

logger = logging.getLogger(__name__)

# Tokens in the cache, and rows, of one batch. Each step of a batch reads all weights once, however
# many rows it has; on a CPU the rows soon cost more than the weights.
_LIMITS = {
    "cpu": BatchLimits(tokens=16_384, cache_tokens=0, rows=16),
    "cuda": BatchLimits(tokens=262_144, cache_tokens=0, rows=256),
}


@dataclass(frozen=True)
class GenerationOptions:
    """How answers are generated.

    Attributes:
        max_out_len: Most tokens of an answer.
        min_out_len: Fewest tokens of an answer; None for no limit.
        stop_words: An answer ends before the first of these texts.
        generation_kwargs: For ``GenerationConfig`` of transformers; greedy without them.
        json_schema: What an answer has to be, as a JSON Schema; None for free text.
        pad_token_id: Fills up short prompts; None takes what tokenizer or model define.
        max_seq_len: Tokens of a prompt and its answer together; None for no limit.
        batch_rows: Most prompts per batch; None leaves it to the device.
    """

    max_out_len: int
    min_out_len: int | None = None
    stop_words: tuple[str, ...] = ()
    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)
    json_schema: Mapping[str, Any] | None = None
    pad_token_id: int | None = None
    max_seq_len: int | None = None
    batch_rows: int | None = None


class Generator:
    """Generates answers to prompts that are token ids.

    Args:
        model: A causal LM of transformers.
        tokenizer: Its tokenizer.
        options: See ``GenerationOptions``.

    Raises:
        ConfigError: transformers refuses ``generation_kwargs``.
    """

    def __init__(self, model: Any, tokenizer: Any, options: GenerationOptions) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.options = options
        self._end_ids = _end_ids(model, tokenizer)
        self._pad_id = _pad_id(tokenizer, options, self._end_ids)
        self._config = self._make_config()

    def run(
        self, prompts: Sequence[IntArray], *, finished: Collection[int] = ()
    ) -> Iterator[dict[int, GeneratedText]]:
        """Yield answers by index of the prompt, one dict per batch.

        Args:
            prompts: Token ids of all prompts.
            finished: Indices that need no answer. A batch of which some prompts are finished is
                generated whole, so that its other answers do not change.

        Raises:
            TextError: A prompt leaves no room for an answer.
            ModelError: A single prompt does not fit into memory.
        """
        for index, ids in enumerate(prompts):
            self._check_length(index, len(ids))
        askers = self._group_equal(prompts)
        lengths = {first: len(prompts[first]) + self.options.max_out_len for first in askers}
        limits = _LIMITS["cuda" if self.model.device.type == "cuda" else "cpu"]
        if self.options.batch_rows is not None:
            limits = limits._replace(rows=self.options.batch_rows)
        done = frozenset(finished)
        for batch in make_batches(lengths, limits):
            wanted = {i: first for first in batch for i in askers[first] if i not in done}
            if wanted:
                answers = self._answer(prompts, batch)
                yield {i: answers[first] for i, first in wanted.items()}

    def _check_length(self, index: int, tokens: int) -> None:
        if tokens == 0:
            raise TextError(index, "the prompt has no token, so there is nothing to go on from")
        limit, answer = self.options.max_seq_len, self.options.max_out_len
        if limit is not None and tokens + answer > limit:
            raise TextError(
                index,
                f"the prompt has {tokens} tokens and max_out_len={answer}, and the model takes "
                f"{limit} together; lower max_out_len, shorten the prompt, or leave the row out",
            )

    def _group_equal(self, prompts: Sequence[IntArray]) -> dict[int, list[int]]:
        """Return first index -> all indices with the same prompt: greedily, one answer is all."""
        if self._config.do_sample:
            return {i: [i] for i in range(len(prompts))}
        first: dict[bytes, int] = {}
        groups: dict[int, list[int]] = {}
        for i, ids in enumerate(prompts):
            groups.setdefault(first.setdefault(ids.tobytes(), i), []).append(i)
        return groups

    def _answer(self, prompts: Sequence[IntArray], batch: list[int]) -> dict[int, GeneratedText]:
        """Return the answers to the prompts of a batch, halving it while memory runs out."""
        try:
            return self._answer_at_once(prompts, batch)
        except Exception as error:
            if not should_reduce_batch_size(error):
                raise
            if len(batch) == 1:
                raise ModelError(
                    f"out of memory on one prompt of {len(prompts[batch[0]])} tokens: lower "
                    "max_out_len, use a smaller dtype, or give the model more GPUs "
                    "(run_cfg.num_gpus)"
                ) from error
            logger.warning("out of memory at %d prompts: the batch is halved", len(batch))
        free_memory()
        middle = (len(batch) + 1) // 2
        return {
            **self._answer(prompts, batch[:middle]),
            **self._answer(prompts, batch[middle:]),
        }

    def _answer_at_once(
        self, prompts: Sequence[IntArray], batch: list[int]
    ) -> dict[int, GeneratedText]:
        width = max(len(prompts[i]) for i in batch)
        ids = np.full((len(batch), width), self._pad_id, dtype=np.int64)
        mask = np.zeros((len(batch), width), dtype=np.int64)
        for row, i in enumerate(batch):
            ids[row, width - len(prompts[i]) :] = prompts[i]
            mask[row, width - len(prompts[i]) :] = 1
        if self._config.do_sample:
            # A sampled answer then depends on its batch alone, not on what was sampled before.
            torch.manual_seed(batch[0])
        # generate warns about settings of the checkpoint that this call does not use.
        with torch.inference_mode(), quiet_loading():
            output = self.model.generate(
                torch.from_numpy(ids).to(self.model.device),
                attention_mask=torch.from_numpy(mask).to(self.model.device),
                generation_config=self._config,
                logits_processor=self._constraints(),
                tokenizer=self.tokenizer if self.options.stop_words else None,
            )
        new = output[:, width:].tolist()
        return {i: self._cut(len(prompts[i]), tokens) for i, tokens in zip(batch, new, strict=True)}

    def _constraints(self) -> LogitsProcessorList:
        if self.options.json_schema is None:
            return LogitsProcessorList()
        from opencompass_ext.models.constrained import SchemaProcessor

        return LogitsProcessorList(
            [
                SchemaProcessor(
                    self.tokenizer,
                    vocab_size=self.model.get_output_embeddings().weight.shape[0],
                    end_ids=self._end_ids,
                    schema=self.options.json_schema,
                )
            ]
        )

    def _cut(self, prompt_tokens: int, new: list[int]) -> GeneratedText:
        """Return the answer in generated tokens, which end in padding where others went on."""
        end = next((k for k, token in enumerate(new) if token in self._end_ids), None)
        own = new if end is None else new[: end + 1]
        text = self._decode(own)
        stops = [at for word in self.options.stop_words if (at := text.find(word)) >= 0]
        if stops:
            text = text[: min(stops)]
            # After a stop word, unlike after an end token, padding follows at once.
            while own and own[-1] == self._pad_id:
                own = own[:-1]
        is_stopped = end is not None or bool(stops)
        if not is_stopped:
            # The limit may have fallen between the bytes of one character.
            text = text.rstrip("\ufffd")
        return GeneratedText(
            text=text,
            input_tokens=prompt_tokens,
            output_tokens=len(own),
            finish_reason="stop" if is_stopped else "length",
        )

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    def _make_config(self) -> GenerationConfig:
        options = self.options
        settings: dict[str, Any] = {
            "do_sample": False,
            **options.generation_kwargs,
            "max_new_tokens": options.max_out_len,
            "eos_token_id": list(self._end_ids) or None,
            "pad_token_id": self._pad_id,
        }
        if options.min_out_len is not None:
            settings["min_new_tokens"] = options.min_out_len
        if options.stop_words:
            settings["stop_strings"] = list(options.stop_words)
        try:
            config = GenerationConfig(**settings)
            config.validate(strict=True)
            unknown = config.get_generation_mode() and [
                name for name in options.generation_kwargs if not hasattr(GenerationConfig(), name)
            ]
        except (TypeError, ValueError) as error:
            raise ConfigError(f"generation_kwargs: {' '.join(str(error).split())}") from error
        if config.num_return_sequences not in (None, 1):
            raise ConfigError("generation_kwargs: num_return_sequences must be 1: one answer a row")
        if unknown:
            raise ConfigError(
                f"generation_kwargs: transformers knows no setting {unknown[0]!r} of generation"
            )
        return config


def _end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the tokens that end an answer: the checkpoint's, and the tokenizer's own."""
    given = [model.generation_config.eos_token_id, tokenizer.eos_token_id]
    flat = [t for ids in given for t in (ids if isinstance(ids, (list, tuple)) else [ids])]
    return tuple(dict.fromkeys(token for token in flat if token is not None))


def _pad_id(tokenizer: Any, options: GenerationOptions, end_ids: tuple[int, ...]) -> int:
    # Padding is masked, so any token serves; an end token also marks where an answer stops.
    for token in (options.pad_token_id, tokenizer.pad_token_id, *end_ids):
        if token is not None:
            return int(token)
    return 0
