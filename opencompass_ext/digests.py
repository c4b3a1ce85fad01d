"""Hashes of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

_CHUNK_BYTES = 1 << 20


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content in hex digits.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
