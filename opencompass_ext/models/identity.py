"""Tell whether two model folders, or files, hold the same model, without reading gigabytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
# What decides token ids and numbers beside the weights. generation_config.json decides neither.
SETTING_FILES = (
    "config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
)
_BLOCK_BYTES = 4096
_BLOCKS = 1024


def folder_fingerprint(folder: Path) -> str:
    """Return 32 hex digits of the weights and settings of a model folder.

    Setting files are hashed whole. Of a weight file the size and 1024 blocks of 4 KiB spread over
    it are: training moves every weight, and a hash of all bytes of a 70B model takes minutes. The
    folder's own name and place do not count.
    """
    return _fingerprint(_relevant_files(folder))


def settings_fingerprint(folder: Path) -> str:
    """Return 32 hex digits of the settings alone; weights in the folder do not count."""
    return _fingerprint(path for path in _relevant_files(folder) if path.name in SETTING_FILES)


def file_fingerprint(path: Path) -> str:
    """Return 32 hex digits of one model file, such as a GGUF file that holds all of a model.

    Neither its name nor what lies beside it counts.
    """
    digest = hashlib.sha256()
    _update_with_file(digest, path)
    return digest.hexdigest()[:32]


def _fingerprint(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode())
        _update_with_file(digest, path)
    return digest.hexdigest()[:32]


def _relevant_files(folder: Path) -> Iterable[Path]:
    for path in folder.iterdir():
        if path.is_file() and (path.suffix in WEIGHT_SUFFIXES or path.name in SETTING_FILES):
            yield path


def _update_with_file(digest: hashlib._Hash, path: Path) -> None:
    if path.suffix in WEIGHT_SUFFIXES:
        _update_with_samples(digest, path)
    else:
        digest.update(path.read_bytes())


def _update_with_samples(digest: hashlib._Hash, path: Path) -> None:
    size = path.stat().st_size
    digest.update(str(size).encode())
    blocks = min(_BLOCKS, -(-size // _BLOCK_BYTES))
    with path.open("rb") as file:
        for block in range(blocks):
            # The first block holds the header, the last one the end.
            file.seek((size - _BLOCK_BYTES) * block // (blocks - 1) if blocks > 1 else 0)
            digest.update(file.read(_BLOCK_BYTES))
