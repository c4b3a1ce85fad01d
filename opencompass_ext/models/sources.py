"""Where weights and tokenizers come from: a folder, a GGUF file, an embedded model, a hub id."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opencompass_ext.errors import ModelError
from opencompass_ext.models.embedded import embedded_identity, is_embedded, resolve_embedded
from opencompass_ext.models.identity import (
    file_fingerprint,
    folder_fingerprint,
    settings_fingerprint,
)

# What a key of the config names, and what may stand there.
_EXPECTED = {
    "path": (
        "model",
        "a folder with config.json and weights, a .gguf file, 'embedded:<name>', or a hub id such "
        "as 'org/name'",
    ),
    "tokenizer_path": (
        "tokenizer",
        "a folder with tokenizer.json, 'embedded:<name>', or a hub id such as 'org/name'",
    ),
    "peft_path": (
        "adapter",
        "a folder with adapter_config.json and the adapter's weights, or a hub id such as "
        "'org/name'",
    ),
}


def local_source(path: str) -> str:
    """Return what transformers can load: a local path, or the hub id as it is."""
    if is_embedded(path):
        return str(resolve_embedded(path))
    return str(Path(path).expanduser()) if _is_local(path) else path


def check_source(path: str | None, key: str | None = None) -> None:
    """Check that ``path``, if it is a local one, is there.

    Args:
        path: As in a config; None for a key that is left out.
        key: The key it stands under, named in the error: ``"path"``, ``"tokenizer_path"`` or
            ``"peft_path"``; None leaves the name out and gives the advice for ``"path"``.

    Raises:
        ModelError: It is not, or it is empty.
    """
    if path is None:
        return
    if not path:
        raise ModelError(f"{key or 'path'} is empty")
    if is_embedded(path) or not _is_local(path):
        return
    place = Path(path).expanduser()
    if not place.exists():
        what, expected = _EXPECTED[key or "path"]
        raise ModelError(
            f"{key + ': ' if key else ''}there is no {what} at {path!r} (looked at "
            f"{place.absolute()}); give {expected}"
        )


def source_identity(path: str, arguments: Mapping[str, Any]) -> Any:
    """Return what tells the content at ``path`` from any other, as plain JSON values.

    Args:
        path: As in a config.
        arguments: Of ``from_pretrained``; a ``revision`` among them chooses the hub's commit.

    Raises:
        ModelError: A hub id that can be had neither from the hub nor from its cache.
    """
    if is_embedded(path):
        return embedded_identity(path)
    local = Path(path).expanduser()
    if local.is_dir():
        return {"fingerprint": folder_fingerprint(local)}
    if local.is_file():
        return {
            "fingerprint": file_fingerprint(local),
            # transformers prefers a tokenizer.json beside a GGUF file to the tokenizer in it.
            "settings": settings_fingerprint(local.parent),
        }
    return {"hub": path, "revision": _hub_commit(path, arguments.get("revision"))}


def _is_local(path: str) -> bool:
    """Tell a local path from a hub id: by existing, or by a form that no hub id can have."""
    return (
        Path(path).expanduser().exists()
        or path.startswith((".", "/", "~"))
        or path.count("/") > 1
        or path.endswith(".gguf")
    )


def _hub_commit(repository: str, revision: str | None) -> str:
    """Return the commit a hub id stands for now; needs the network, or a filled hub cache."""
    commit, reason = _ask_hub(repository, revision)
    if commit is None:
        raise ModelError(
            f"{repository!r} is no local folder and cannot be had from the hub: {reason}; give a "
            "local folder, or 'embedded:smollm2-135m-instruct' to try without any download"
        )
    return commit


@functools.cache
def _ask_hub(repository: str, revision: str | None) -> tuple[str | None, str]:
    """Return the commit, or None and the reason there is none.

    One answer holds for the whole process: without a network each try takes long, and every data
    set asks.
    """
    from huggingface_hub import hf_hub_download

    try:
        # A downloaded file lies in a folder named after its commit.
        path = hf_hub_download(repository, "config.json", revision=revision)
    except Exception as error:
        return None, " ".join(str(error).split())[:300].rstrip(" .,:;")
    return Path(path).parent.name, ""
