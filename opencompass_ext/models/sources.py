"""Where weights and tokenizers come from: a folder, a GGUF file, an embedded model, a hub id."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opencompass_ext.errors import ModelError
from opencompass_ext.models.embedded import embedded_identity, is_embedded, resolve_embedded
from opencompass_ext.models.identity import folder_fingerprint


def local_source(path: str) -> str:
    """Return what transformers can load: a local path, or the hub id as it is."""
    if is_embedded(path):
        return str(resolve_embedded(path))
    return str(Path(path).expanduser()) if _is_local(path) else path


def check_source(path: str | None) -> None:
    """Check that ``path``, if it is a local one, is there.

    Raises:
        ModelError: It is not.
    """
    if path is None or is_embedded(path) or not _is_local(path):
        return
    if not Path(path).expanduser().exists():
        raise ModelError(
            f"there is no model at {path!r} (looked at {Path(path).expanduser().absolute()}); give "
            "a folder with config.json and weights, a .gguf file, 'embedded:<name>', or a hub id "
            "such as 'org/name'"
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
        return {"file": local.name, "fingerprint": folder_fingerprint(local.parent)}
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
    from huggingface_hub import hf_hub_download

    try:
        # A downloaded file lies in a folder named after its commit.
        return Path(hf_hub_download(repository, "config.json", revision=revision)).parent.name
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{repository!r} is no local folder and cannot be had from the hub: {reason}; give a "
            "local folder, or 'embedded:smollm2-135m-instruct' to try without any download"
        ) from error
