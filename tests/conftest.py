"""Fixtures every part of the suite may use: the real models, from the user's own cache."""

from __future__ import annotations

import os
import signal
import textwrap
from pathlib import Path

import hypothesis
import pytest

from opencompass_ext.models.embedded import resolve_embedded

# As workers are started: threads that spin while they wait would slow down all that runs beside.
# Read when torch is loaded, so it has to be set before.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

# A shell lets its background jobs ignore Ctrl-C, and a run respects that. Tests press Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """Folder of SmolLM2-135M-Instruct: byte-level BPE, adds no BOS, pad is EOS."""
    return resolve_embedded("embedded:smollm2-135m-instruct")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    """Folder of Gemma 3 270M: SentencePiece vocabulary, adds BOS, pads on the left."""
    return resolve_embedded("embedded:gemma3-270m")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write files below a folder that is also the working folder; return the path of one."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write_file
