"""Tiny random models of many families, and an encoder of one token per character."""

import numpy as np
import torch
import transformers

from opencompass_ext.likelihood.engine import Engine, EngineOptions
from opencompass_ext.likelihood.probe import probe
from opencompass_ext.likelihood.scorer import ScorerOptions, SpanScorer
from opencompass_ext.likelihood.spans import EncodedText

VOCAB_SIZE = 300
MAX_LENGTH = 160
WINDOW = 8

_COMMON = dict(
    vocab_size=VOCAB_SIZE,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=MAX_LENGTH,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
_PLAIN = dict(
    vocab_size=VOCAB_SIZE,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=MAX_LENGTH,
    bos_token_id=1,
    eos_token_id=2,
)
_GPT = dict(vocab_size=VOCAB_SIZE, n_embd=32, n_layer=2, n_head=4, n_positions=MAX_LENGTH)
_ALL_HEADS = {**_COMMON, "num_key_value_heads": 4}

CONFIGS = {
    "llama": ("LlamaConfig", _COMMON),
    "llama-dynamic-rope": (
        "LlamaConfig",
        {
            **_COMMON,
            "max_position_embeddings": 24,
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
        },
    ),
    "qwen2": ("Qwen2Config", _COMMON),
    "qwen3": ("Qwen3Config", {**_COMMON, "head_dim": 8}),
    "gemma": ("GemmaConfig", {**_COMMON, "head_dim": 8}),
    "gemma2-soft-caps": (
        "Gemma2Config",
        {
            **_COMMON,
            "head_dim": 8,
            "query_pre_attn_scalar": 8,
            "sliding_window": WINDOW,
            "final_logit_softcapping": 1.0,
            "attn_logit_softcapping": 1.0,
        },
    ),
    "gemma3-sliding": (
        "Gemma3TextConfig",
        {
            **_COMMON,
            "head_dim": 8,
            "query_pre_attn_scalar": 8,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "gpt2": ("GPT2Config", {**_GPT, "bos_token_id": 1, "eos_token_id": 2}),
    "gptj": ("GPTJConfig", {**_GPT, "rotary_dim": 4, "bos_token_id": 1, "eos_token_id": 2}),
    "gpt-neo-local": (
        "GPTNeoConfig",
        dict(
            vocab_size=VOCAB_SIZE,
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=WINDOW,
            max_position_embeddings=MAX_LENGTH,
            bos_token_id=1,
            eos_token_id=2,
        ),
    ),
    "gpt-neox": ("GPTNeoXConfig", {**_PLAIN, "intermediate_size": 64}),
    "mistral-sliding": ("MistralConfig", {**_COMMON, "sliding_window": WINDOW}),
    "starcoder2-sliding": ("Starcoder2Config", {**_COMMON, "sliding_window": WINDOW}),
    "mixtral-moe": ("MixtralConfig", {**_COMMON, "num_local_experts": 4}),
    "gpt-oss-moe": (
        "GptOssConfig",
        {**_COMMON, "head_dim": 8, "num_local_experts": 4, "sliding_window": WINDOW},
    ),
    "phi": ("PhiConfig", _ALL_HEADS),
    "phi3": ("Phi3Config", _COMMON),
    "opt": (
        "OPTConfig",
        dict(
            vocab_size=VOCAB_SIZE,
            hidden_size=32,
            ffn_dim=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=MAX_LENGTH,
            word_embed_proj_dim=16,
        ),
    ),
    "bloom-alibi": (
        "BloomConfig",
        dict(vocab_size=VOCAB_SIZE, hidden_size=32, n_layer=2, n_head=4),
    ),
    "falcon": ("FalconConfig", {**_PLAIN}),
    "mpt-alibi": (
        "MptConfig",
        dict(vocab_size=VOCAB_SIZE, d_model=32, n_heads=4, n_layers=2, max_seq_len=MAX_LENGTH),
    ),
    "cohere-logit-scale": ("CohereConfig", {**_COMMON, "logit_scale": 0.5}),
    "granite-logit-scale": ("GraniteConfig", {**_COMMON, "logits_scaling": 4.0}),
    "olmo2": ("Olmo2Config", _COMMON),
    "mamba": (
        "MambaConfig",
        dict(vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=2, state_size=4),
    ),
    "recurrent-gemma": (
        "RecurrentGemmaConfig",
        dict(
            vocab_size=VOCAB_SIZE,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=1,
            intermediate_size=64,
            lru_width=32,
            attention_window_size=WINDOW,
        ),
    ),
    "lfm2-convolution": ("Lfm2Config", _COMMON),
    "rwkv": (
        "RwkvConfig",
        dict(
            vocab_size=VOCAB_SIZE,
            hidden_size=32,
            num_hidden_layers=2,
            attention_hidden_size=32,
            intermediate_size=64,
            context_length=MAX_LENGTH,
        ),
    ),
}


def tiny_model(family="llama", seed=0, **changes):
    """A random float32 model with weights large enough that every part of it matters."""
    config_class, settings = CONFIGS[family]
    torch.manual_seed(seed)
    config = getattr(transformers, config_class)(**{**settings, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model


class CharEncoder:
    """One token per character: id = code point modulo the vocabulary."""

    def encode(self, texts):
        return [self.encode_one(text) for text in texts]

    def encode_one(self, text):
        starts = np.arange(len(text), dtype=np.int64)
        ids = np.array([ord(c) % VOCAB_SIZE for c in text], dtype=np.int64)
        return EncodedText(ids, starts, starts + 1)

    def token_text(self, token_id):
        return chr(token_id)


PROBE_IDS = list(range(10, 40))


def make_scorer(model, engine_options=None, alone_above=None, **scorer_options):
    engine = Engine(
        model,
        probe(model, PROBE_IDS),
        engine_options or EngineOptions(max_batch_tokens=96, alone_above=alone_above),
    )
    options = ScorerOptions(alone_above=alone_above, **scorer_options)
    return SpanScorer(CharEncoder(), engine, options)


def score_all(scorer, texts, **kwargs):
    scored = {}
    for batch in scorer.score(texts, **kwargs):
        assert not scored.keys() & batch.keys(), "a text was scored twice"
        scored.update(batch)
    return scored
