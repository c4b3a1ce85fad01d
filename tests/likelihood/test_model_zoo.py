"""Every family, with every shortcut on, gives what a row alone gives with full logits."""

import random

import pytest
from support.reference import close, span_nll
from support.tiny import CONFIGS, CharEncoder, make_scorer, score_all, tiny_model

from opencompass_ext.likelihood.engine import EngineOptions
from opencompass_ext.records import LabelledText

LENGTH_SENSITIVE = {"llama-dynamic-rope": 24}
# Models whose recurrent state transformers cannot copy to several rows.
WITHOUT_PREFIX_REUSE = {"mamba", "recurrent-gemma", "rwkv"}


def texts_with_shared_beginnings():
    rng = random.Random(3)

    def word(length):
        return "".join(rng.choice("abcdefghijklmnop ") for _ in range(length))

    shots, questions = word(40), [word(15), word(22)]
    texts = [shots + question + word(n) for question in questions for n in (3, 9, 14)]
    texts += [word(n) for n in (1, 2, 5, 11, 30, 60)]
    texts += [texts[0], texts[1], texts[0][:30], shots + questions[0]]
    return [
        LabelledText(text, {"end": ((len(text) * 2 // 3, len(text)),), "all": ((0, len(text)),)})
        for text in texts
    ]


@pytest.mark.parametrize("family", CONFIGS)
def test_equals_a_row_alone_with_full_logits(family):
    model = tiny_model(family)
    texts = texts_with_shared_beginnings()
    alone_above = LENGTH_SENSITIVE.get(family)
    scorer = make_scorer(
        model,
        EngineOptions(max_batch_tokens=128, alone_above=alone_above),
        alone_above=alone_above,
    )
    assert scorer.backend.traits.reuses_prefix is (family not in WITHOUT_PREFIX_REUSE)

    scored = score_all(scorer, texts)

    for i, text in enumerate(texts):
        encoded = CharEncoder().encode_one(text.text)
        ranges = list(zip(encoded.starts.tolist(), encoded.ends.tolist(), strict=True))
        for name, spans in text.spans.items():
            nll, token_len = span_nll(model, encoded.ids.tolist(), ranges, spans)
            got = scored[i].spans[name]
            assert got.token_len == token_len
            assert close(got.nll, nll), (family, i, name, got.nll, nll)
