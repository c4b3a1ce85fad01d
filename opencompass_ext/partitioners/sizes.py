"""How large datasets are: rows, and tokens by estimate.

Where a dataset class can count the rows of its file itself (``BaseDataset.count``), that is asked:
it takes no longer than reading the file. All others are built once, in a process of its own, since
here no library that holds tables is loaded. What that process finds is remembered under a hash of
the dataset's config and of the files it names, so a file that has changed is measured anew. A
dataset that names no file of this machine is not remembered.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opencompass_ext.datasets.paths import shipped_root
from opencompass_ext.datasets.ranges import select_rows
from opencompass_ext.digests import file_sha256
from opencompass_ext.errors import OpenCompassExtError, OutputError
from opencompass_ext.python_process import module_command, module_environment
from opencompass_ext.registry import DATASETS
from opencompass_ext.tasks.base import STAGE_KEYS
from opencompass_ext.version import __version__
from opencompass_ext.writing import write_json

logger = logging.getLogger(__name__)

Config = Mapping[str, Any]

# Of English prose in the vocabularies of today; a Chinese character has three and is about one.
BYTES_PER_TOKEN = 4
# A folder with more files is a place for all kinds of things, and is not looked through.
_MOST_FILES = 1000


class Size(NamedTuple):
    """How large the test rows of a dataset are.

    Attributes:
        rows: How many there are.
        tokens: Estimate of their tokens: UTF-8 bytes / 4.
    """

    rows: int
    tokens: int


Measure = Callable[[Sequence[Config]], Sequence[Size | None]]


class SizeBook:
    """Measures datasets, each once.

    Args:
        cache: File that sizes are remembered in between runs.
        is_rebuilding: Do not use what it holds.
        is_read_only: Do not write it.

    Attributes:
        reasons: Why a dataset could not be measured, by abbr.
    """

    def __init__(
        self, cache: Path, *, is_rebuilding: bool = False, is_read_only: bool = False
    ) -> None:
        self._cache = cache
        self._is_rebuilding = is_rebuilding
        self._is_read_only = is_read_only
        self._known: dict[str, Size | None] = {}
        self.reasons: dict[str, str] = {}

    def __call__(self, datasets: Sequence[Config]) -> list[Size | None]:
        """Return the size of each dataset, None where it cannot be told."""
        keys = [_key(dataset) for dataset in datasets]
        new = {k: d for k, d in zip(keys, datasets, strict=True) if k not in self._known}
        slow = {}
        for key, dataset in new.items():
            try:
                size = counted_size(dataset)
            except OpenCompassExtError as error:
                self._unknown(key, dataset, str(error))
                continue
            if size is None:
                slow[key] = dataset
            else:
                self._known[key] = size
        if slow:
            self._measure_by_building(slow)
        return [self._known[key] for key in keys]

    def _unknown(self, key: str, dataset: Config, reason: str) -> None:
        self._known[key] = None
        self.reasons[dataset["abbr"]] = reason

    def _measure_by_building(self, datasets: Mapping[str, Config]) -> None:
        remembered = {} if self._is_rebuilding else _read_cache(self._cache)
        signatures = {key: content_signature(dataset) for key, dataset in datasets.items()}
        todo = {}
        for key, dataset in datasets.items():
            found = remembered.get(signatures[key] or "")
            if found is None:
                todo[key] = dataset
            else:
                self._known[key] = found
        if not todo:
            return
        logger.info("measuring %d datasets", len(todo))
        for (key, dataset), reply in zip(
            todo.items(), _build_all(list(todo.values())), strict=True
        ):
            if "error" in reply:
                self._unknown(key, dataset, reply["error"])
                continue
            size = Size(reply["rows"], reply["bytes"] // BYTES_PER_TOKEN)
            self._known[key] = size
            signature = signatures[key]
            if signature is not None:
                remembered[signature] = size
        if not self._is_read_only:
            try:
                write_json(self._cache, {k: list(size) for k, size in remembered.items()})
            except OutputError as error:
                logger.warning("sizes of datasets are not remembered: %s", error)


def counted_size(dataset: Config) -> Size | None:
    """Return the size of a dataset whose class can count its rows, None for another.

    Raises:
        OpenCompassExtError: The data is not there or is broken.
    """
    cls = DATASETS.get(dataset["type"])
    if not _counts_what_it_loads(cls):
        return None
    arguments = {k: v for k, v in dataset.items() if k not in STAGE_KEYS}
    reader_cfg, limit = arguments.pop("reader_cfg", None) or {}, arguments.pop("limit", None)
    del arguments["type"]
    count = cls.count  # type: ignore[attr-defined]
    try:
        inspect.signature(count).bind(**arguments)
    except TypeError:
        return None  # a wrong key, of which building it tells more
    counted = count(**arguments)
    if counted is None or counted.rows == 0:
        return None
    rows = len(select_rows(counted.rows, reader_cfg.get("test_range"))[:limit])
    return Size(rows, counted.bytes * rows // counted.rows // BYTES_PER_TOKEN)


def _counts_what_it_loads(cls: type) -> bool:
    names = ("count", "load")
    owners = {next((c for c in cls.__mro__ if name in vars(c)), None) for name in names}
    # A class that inherits the one and has the other of its own may load other rows than counted.
    # Where ranges speak of groups of rows, how many rows they leave shows only in the rows.
    return len(owners) == 1 and None not in owners and getattr(cls, "group_column", None) is None


def content_signature(dataset: Config) -> str | None:
    """Return a hash of a dataset's config and of the files it names; None if it names none.

    None as well where a file cannot be read: building the dataset tells more of that.
    """
    digest = hashlib.sha256(json.dumps([__version__, _key(dataset)]).encode())
    places = [p for text in dataset.values() if isinstance(text, str) for p in _places(text)]
    contents = []
    try:
        for path in places:
            if path.is_file():
                contents.append(f"file {file_sha256(path)}")
            elif path.is_dir():
                files = _files_below(path)
                if files is None:
                    return None
                contents.append(json.dumps(files))
    except OSError:
        return None
    for content in contents:
        digest.update(content.encode("utf-8", "surrogatepass"))
    return digest.hexdigest() if contents else None


def _key(dataset: Config) -> str:
    return json.dumps({k: v for k, v in dataset.items() if k not in STAGE_KEYS}, sort_keys=True)


def _places(value: str) -> list[Path]:
    try:
        given = Path(value).expanduser()
        places = [given] if given.is_absolute() else [Path.cwd() / given, shipped_root() / given]
        return [path for path in places if value and path.exists()]
    except (OSError, ValueError, RuntimeError):  # a text that can be no path
        return []


def _files_below(folder: Path) -> list[tuple[str, int, int]] | None:
    files = []
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            stat = path.lstat()
            files.append((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns))
            if len(files) > _MOST_FILES:
                return None
    return sorted(files)


def _read_cache(path: Path) -> dict[str, Size]:
    try:
        entries = json.loads(path.read_bytes())
        return {key: Size(*map(int, size)) for key, size in entries.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        logger.warning("%s cannot be used (%s): datasets are measured anew", path, error)
        return {}


def _build_all(datasets: Sequence[Config]) -> list[dict[str, Any]]:
    """Return ``{"rows", "bytes"}`` or ``{"error"}`` of each dataset, built in another process."""
    done = subprocess.run(
        module_command("opencompass_ext.tasks.count"),
        input=json.dumps(list(datasets)).encode(),
        capture_output=True,
        env=module_environment(os.environ),
        check=False,
    )
    replies: list[dict[str, Any]] = []
    for line in done.stdout.splitlines():
        replies.append(json.loads(line))
    if len(replies) < len(datasets):
        # It died at this dataset; those after it are tried without it.
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        replies.append({"error": f"exit code {done.returncode}: {lines[-1]}"})
        replies += _build_all(datasets[len(replies) :]) if len(replies) < len(datasets) else []
    return replies
