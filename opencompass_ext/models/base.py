"""What a model offers to inferencers, under our names and under OpenCompass's."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from opencompass_ext.records import LabelledText, ScoredText


class BaseModel(ABC):
    """A model that scores labelled texts.

    Building one reads no weights: they are loaded by the first call that needs them. So a task
    whose rows are all finished never loads its model.
    """

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
