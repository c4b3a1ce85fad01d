"""What a model offers to inferencers, under our names and under OpenCompass's."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from opencompass_ext.errors import ConfigError
from opencompass_ext.records import (
    GeneratedText,
    GenerationRequest,
    LabelledText,
    Message,
    ScoredText,
)


class BaseModel(ABC):
    """A model that scores labelled texts, and may answer prompts.

    Building one reads no weights: they are loaded by the first call that needs them. So a task
    whose rows are all finished never loads its model.

    Attributes:
        takes_messages: Whether ``generate_texts`` wants the messages of a chat as prompts.
        row_fields: Columns of a row, besides the prompt, that decide the answer to it.
        is_on_server: Whether the work is done elsewhere, so that many workers need few CPU cores.
    """

    takes_messages: ClassVar[bool] = False
    is_on_server: ClassVar[bool] = False
    row_fields: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Return all that decides the scores, as plain JSON values, without loading weights.

        Two models with equal identity give equal scores; resuming relies on it.
        """

    @abstractmethod
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
        """Yield the scores of ``texts`` by index, one dict per batch as batches finish.

        Args:
            texts: All texts of the data set, in order. How they are batched depends on all of
                them, so that an interrupted run that goes on gives the very same numbers.
            finished: Indices that need no score; they are not yielded.
            batch_rows: Most rows per forward pass; None leaves it to the model.
            token_details: Whether the scores say what the model thought of each token.
            prefix_token: What stands before every text in this call, where the model lets one
                choose: ``"auto"``, ``"bos"``, ``"eos"``, ``"bos_or_eos"`` or ``"none"``. None: what
                the model was built with.
            long_text: What happens to a text that is too long in this call: ``"window"``,
                ``"truncate"`` or ``"error"``. None: what the model was built with.
        """

    def generate_texts(
        self,
        requests: Sequence[GenerationRequest],
        *,
        max_out_len: int,
        min_out_len: int | None = None,
        stop_words: Sequence[str] = (),
        json_schema: Mapping[str, Any] | None = None,
        finished: Collection[int] = (),
        batch_rows: int | None = None,
    ) -> Iterator[dict[int, GeneratedText]]:
        """Yield the answers to ``requests`` by index, one dict per batch as batches finish.

        Args:
            requests: All requests of the data set, in order.
            max_out_len: Most tokens of an answer.
            min_out_len: Fewest tokens of an answer.
            stop_words: An answer ends before the first of these texts.
            json_schema: What an answer has to be, as a JSON Schema; None for free text.
            finished: Indices that need no answer; they are not yielded.
            batch_rows: Most prompts per batch; None leaves it to the model.

        Raises:
            ConfigError: This model does not generate.
        """
        raise ConfigError(
            f"{type(self).__name__} scores texts and does not generate; use a model that does, "
            "such as HuggingFacewithChatTemplate"
        )

    def generation_settings(self) -> Mapping[str, Any]:
        """Return what decides answers besides ``identity``, as plain JSON values."""
        return {}

    def chat_text(self, messages: Sequence[Message]) -> str:
        """Return the messages in the model's chat template, up to where its answer begins.

        Raises:
            ConfigError: The model has no chat template, or the template refuses the messages.
        """
        raise ConfigError(f"{type(self).__name__} has no chat template")

    def provenance(self) -> Mapping[str, Any]:
        """Return what is known once the model is loaded: device, dtype, library versions."""
        return {}

    def scorer_fingerprint(self) -> str:
        """Return 16 hex digits that change whenever ``identity`` does."""
        canonical = json.dumps(self.identity(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def score_all(self, texts: Sequence[LabelledText]) -> list[ScoredText]:
        """Return the scores of ``texts`` in order."""
        scored: dict[int, ScoredText] = {}
        for batch in self.score_spans(texts):
            scored.update(batch)
        return [scored[i] for i in range(len(texts))]

    # OpenCompass's call protocol: thin names over score_spans.

    def get_ppl_tokenwise(
        self, inputs: Sequence[str], label: Sequence[Sequence[Sequence[int]]]
    ) -> tuple[list[float], list[int]]:
        """Return the summed NLL in nats and the token count of each input's labelled spans."""
        texts = [
            LabelledText(text, {"label": tuple((s[0], s[1]) for s in spans)})
            for text, spans in zip(inputs, label, strict=True)
        ]
        likelihoods = [scored.spans["label"] for scored in self.score_all(texts)]
        return [x.nll for x in likelihoods], [x.token_len for x in likelihoods]

    def generate(
        self, inputs: Sequence[str], max_out_len: int, stopping_criteria: Sequence[str] = ()
    ) -> list[str]:
        """Return the answer to each input, in order."""
        answers: dict[int, GeneratedText] = {}
        requests = [GenerationRequest(prompt) for prompt in inputs]
        for batch in self.generate_texts(
            requests, max_out_len=max_out_len, stop_words=stopping_criteria
        ):
            answers.update(batch)
        return [answers[i].text for i in range(len(requests))]
