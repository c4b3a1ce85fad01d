"""Models that refuse a shortcut, or give other numbers with it, are scored the plain way."""

import logging

import pytest
import torch
from support.reference import close, span_nll
from support.tiny import PROBE_IDS, CharEncoder, make_scorer, score_all, tiny_model
from torch import nn

from opencompass_ext.errors import ModelError
from opencompass_ext.likelihood.forward import (
    HEAD_AT_POSITIONS,
    HEAD_BY_MASK,
    HEAD_EVERYWHERE,
    score_logits,
)
from opencompass_ext.likelihood.probe import probe
from opencompass_ext.records import LabelledText


class Wrapped(nn.Module):
    """A model that offers nothing but token ids in, logits out."""

    def __init__(self, model):
        super().__init__()
        self.inner = model

    def get_input_embeddings(self):
        return self.inner.get_input_embeddings()

    def forward(self, input_ids, attention_mask=None):
        return self.inner(input_ids=input_ids, attention_mask=attention_mask)


class WithLogitsToKeep(Wrapped):
    """Also takes logits_to_keep, as models of transformers do; its trunk is out of reach."""

    def forward(self, input_ids, attention_mask=None, logits_to_keep=0):
        return self.inner(
            input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=logits_to_keep
        )


class SeesOtherRows(Wrapped):
    """Normalises over the batch: no row may have company."""

    def forward(self, input_ids, attention_mask=None):
        output = self.inner(input_ids=input_ids, attention_mask=attention_mask)
        output.logits = output.logits * input_ids.shape[0]
        return output


class NeedsMask(Wrapped):
    """Gives sensible logits to several rows only when told which of their tokens are padding."""

    def forward(self, input_ids, attention_mask=None):
        output = self.inner(input_ids=input_ids, attention_mask=attention_mask)
        if attention_mask is None and input_ids.shape[0] > 1:
            output.logits = -output.logits
        return output


def texts():
    words = ["abcdefgh", "abcdxy", "hello there", "abcdefgh", "zz", "q" * 30]
    return [LabelledText(word, {"label": ((1, len(word)),)}) for word in words]


def assert_equal_to_rows_alone(model):
    scored = score_all(make_scorer(model), texts())
    for i, text in enumerate(texts()):
        encoded = CharEncoder().encode_one(text.text)
        ranges = [(c, c + 1) for c in range(len(text.text))]
        nll, token_len = span_nll(model, encoded.ids.tolist(), ranges, text.spans["label"])
        assert scored[i].spans["label"].token_len == token_len
        assert close(scored[i].spans["label"].nll, nll)


@pytest.mark.parametrize(
    ("wrapper", "expected"),
    [
        (Wrapped, dict(head=HEAD_EVERYWHERE, needs_mask=False, one_row=False)),
        (WithLogitsToKeep, dict(head=HEAD_BY_MASK, needs_mask=False, one_row=False)),
        (NeedsMask, dict(head=HEAD_EVERYWHERE, needs_mask=True, one_row=False)),
        (SeesOtherRows, dict(head=HEAD_EVERYWHERE, one_row=True)),
    ],
)
def test_what_a_model_does_not_allow_is_found_out_and_not_used(wrapper, expected, caplog):
    model = wrapper(tiny_model("llama")).eval()
    with caplog.at_level(logging.INFO):
        traits = probe(model, PROBE_IDS)
    assert {name: getattr(traits, name) for name in expected} == expected
    assert not traits.reuses_prefix
    assert "shared beginnings are read again" in caplog.text
    if traits.head == HEAD_EVERYWHERE:
        assert "full logits" in caplog.text
    assert_equal_to_rows_alone(model)


def test_a_plain_decoder_allows_everything():
    traits = probe(tiny_model("llama"), PROBE_IDS)
    assert traits == (HEAD_AT_POSITIONS, False, False, True)


def test_a_model_that_looks_ahead_is_refused():
    from transformers import BertConfig, BertLMHeadModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=max(PROBE_IDS) + 1,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        # As large as those of a trained model, which tells words apart.
        initializer_range=0.5,
    )
    with pytest.raises(ModelError, match="BertLMHeadModel is no causal language model"):
        probe(BertLMHeadModel(config).eval(), PROBE_IDS)


def test_the_head_in_chunks_holds_few_logits_at_once():
    model = tiny_model("llama")
    largest = 0

    def remember(module, args, output):
        nonlocal largest
        largest = max(largest, output.numel() // output.shape[-1])

    scorer = make_scorer(model)
    scorer.backend._forward.max_head_positions = 5
    handle = model.lm_head.register_forward_hook(remember)
    try:
        text = LabelledText("abcdefgh" * 10, {"label": ((0, 80),)})
        scored = score_all(scorer, [text])[0].spans["label"]
    finally:
        handle.remove()
    assert largest == 5
    nll, _ = span_nll(
        model,
        CharEncoder().encode_one(text.text).ids.tolist(),
        [(c, c + 1) for c in range(80)],
        [(0, 80)],
    )
    assert close(scored.nll, nll)


def test_half_precision_logits_are_normalised_in_float32():
    logits = torch.full((1, 4096), 10.0, dtype=torch.bfloat16)
    nll = score_logits(logits, torch.tensor([7]), top_k=None).nll
    assert nll.item() == pytest.approx(8.317766, abs=1e-5)  # ln 4096
