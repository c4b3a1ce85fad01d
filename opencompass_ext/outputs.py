"""Where the files of a run lie.

::

    <work_dir>/<YYYYmmdd_HHMMSS>/
        configs/<time>_<pid>.py
        logs/{infer,eval}/<model>/<dataset>.out
        logs/jobs/<job>.out                         of workers in jobs of a cluster
        queue/<time>_<pid>/                         while such workers are there
        predictions/<model>/<dataset>.json          beside it while running: .journal, .lock
        predictions/<model>/<dataset>.provenance
        predictions/<model>/<dataset>.rows/<start>-<stop>.{json,journal,lock,provenance}
        judging/<model>/<dataset>.{transcript,evidence}.jsonl
        results/<model>/<dataset>.json
        summary/summary_<time>.{txt,csv,md}
        summary/<report>_<dataset>.md
        status.json
    <work_dir>/.cache/dataset_size.json

No other module makes a path of this tree.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from datetime import datetime, timedelta
from pathlib import Path

from opencompass_ext.errors import ConfigError

TIME_FORMAT = "%Y%m%d_%H%M%S"
_TIME_PATTERN = re.compile(r"\d{8}_\d{6}")
_ROWS_PATTERN = re.compile(r"(\d+)-(\d+)")

# Longest name without its suffix: file systems allow 255 bytes, some encrypting ones about 143.
_MAX_NAME_BYTES = 120
_KEPT_PUNCTUATION = frozenset("-_.+=@,()[]")
# "~" marks a changed name, so it may not be kept: no unchanged name can then equal a changed one.
_CHANGED_MARK = "~"
_DEVICE_NAMES = frozenset(
    ["con", "prn", "aux", "nul"] + [f"{port}{i}" for port in ("com", "lpt") for i in range(10)]
)


def safe_name(name: str) -> str:
    """Return a file name for ``name`` that stays inside its folder; different for different names.

    Letters and digits of any script are kept. A name in which anything had to be replaced or cut
    ends in ``~`` and 12 hex digits of its hash.

    Example:
        >>> safe_name("smollm2-135m")
        'smollm2-135m'
        >>> safe_name("org/model:v1")
        'org_model_v1~a123334b7b39'
        >>> safe_name("..")
        '__~5ec1f7e700f3'
    """
    normal = unicodedata.normalize("NFC", name)
    kept = "".join(c if c.isalnum() or c in _KEPT_PUNCTUATION else "_" for c in normal)
    # A leading dot hides the file (and is how ".." leaves the folder); Windows drops a last one.
    kept = re.sub(r"^\.|\.$", "_", kept)
    is_device = kept.partition(".")[0].lower() in _DEVICE_NAMES
    if kept == name and name and not is_device and len(name.encode()) <= _MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    mark = _CHANGED_MARK + digest
    start = ("_" + kept if is_device else kept).encode()[: _MAX_NAME_BYTES - len(mark)]
    return start.decode("utf-8", "ignore") + mark


def journal_path(predictions: Path) -> Path:
    """Return where the rows of an unfinished predictions file are kept."""
    return predictions.with_suffix(".journal")


def provenance_path(predictions: Path) -> Path:
    """Return where the row keys and the origin of a predictions file are kept."""
    return predictions.with_suffix(".provenance")


def lock_path(predictions: Path) -> Path:
    """Return the lock that the process writing a predictions file holds."""
    return predictions.with_suffix(".lock")


def rows_folder(predictions: Path) -> Path:
    """Return the folder that holds a predictions file in parts until all of them are there."""
    return predictions.with_suffix(".rows")


def rows_path(predictions: Path, start: int, stop: int) -> Path:
    """Return where the rows ``[start, stop)`` of a predictions file are kept until all are there.

    Example:
        >>> rows_path(Path("predictions/m/d.json"), 0, 100).as_posix()
        'predictions/m/d.rows/0-100.json'
    """
    return rows_folder(predictions) / f"{start}-{stop}.json"


def parts_on_disk(predictions: Path) -> dict[Path, tuple[int, int]]:
    """Return the parts of a predictions file that are there, finished or not: path -> its rows."""
    parts = {}
    folder = rows_folder(predictions)
    for entry in folder.iterdir() if folder.is_dir() else ():
        match = _ROWS_PATTERN.fullmatch(entry.stem)
        if match is not None and entry.suffix in (".json", ".journal"):
            parts[entry.with_suffix(".json")] = (int(match[1]), int(match[2]))
    return dict(sorted(parts.items(), key=lambda item: item[1]))


class RunFolder:
    """The folder of one run and the paths in it.

    Example:
        >>> RunFolder("outputs/20260101_120000").predictions("m", "d/1").as_posix()
        'outputs/20260101_120000/predictions/m/d_1~7b2bc40aabb9.json'
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    @classmethod
    def create(cls, work_dir: str | Path) -> RunFolder:
        """Make ``<work_dir>/<now>``, a folder that no other run has.

        Of two runs that start in the same second, the later gets the next free second.

        Raises:
            ConfigError: The folder cannot be made.
        """
        moment = datetime.now()
        try:
            Path(work_dir).mkdir(parents=True, exist_ok=True)
            while True:
                root = Path(work_dir) / moment.strftime(TIME_FORMAT)
                try:
                    root.mkdir()
                    return cls(root)
                except FileExistsError:
                    moment += timedelta(seconds=1)
        except OSError as error:
            raise ConfigError(
                f"cannot make a folder for this run under work_dir {str(work_dir)!r}: "
                f"{error.strerror}; choose another with -w"
            ) from error

    @classmethod
    def reopen(cls, work_dir: str | Path, time: str) -> RunFolder:
        """Return the folder of an earlier run: ``time`` is its name, or ``"latest"``.

        Raises:
            ConfigError: There is none; the message lists those that exist.
        """
        existing = cls.existing(work_dir)
        if existing and time in ("latest", *existing):
            return cls(Path(work_dir) / (existing[-1] if time == "latest" else time))
        if not existing:
            raise ConfigError(f"nothing to resume: no runs under {str(work_dir)!r}; check -w")
        raise ConfigError(
            f"nothing to resume: no run {time!r} under {str(work_dir)!r} "
            f"(runs there: {', '.join(existing[-10:])}); check -r and -w"
        )

    @staticmethod
    def existing(work_dir: str | Path) -> list[str]:
        """Return the names of the runs under ``work_dir``, oldest first."""
        folder = Path(work_dir)
        if not folder.is_dir():
            return []
        return sorted(
            p.name for p in folder.iterdir() if _TIME_PATTERN.fullmatch(p.name) and p.is_dir()
        )

    def predictions(self, model_abbr: str, dataset_abbr: str) -> Path:
        """Return the path of the predictions of one model on one dataset."""
        return self.root / "predictions" / safe_name(model_abbr) / f"{safe_name(dataset_abbr)}.json"

    def transcript(self, model_abbr: str, dataset_abbr: str) -> Path:
        """Return the path of what a judge was asked about one model on one dataset, and said."""
        folder = self.root / "judging" / safe_name(model_abbr)
        return folder / f"{safe_name(dataset_abbr)}.transcript.jsonl"

    def evidence(self, model_abbr: str, dataset_abbr: str) -> Path:
        """Return the path of what the scores of the single rows rest on."""
        folder = self.root / "judging" / safe_name(model_abbr)
        return folder / f"{safe_name(dataset_abbr)}.evidence.jsonl"

    def results(self, model_abbr: str, dataset_abbr: str) -> Path:
        """Return the path of the metrics of one model on one dataset."""
        return self.root / "results" / safe_name(model_abbr) / f"{safe_name(dataset_abbr)}.json"

    def log(
        self, stage: str, model_abbr: str, dataset_abbr: str, rows: tuple[int, int] | None = None
    ) -> Path:
        """Return the path of the log of one pair at ``stage``, ``"infer"`` or ``"eval"``.

        Args:
            stage: The stage.
            model_abbr: The model.
            dataset_abbr: The dataset.
            rows: The part ``[start, stop)`` of the dataset that has a log of its own.
        """
        folder = self.root / "logs" / stage / safe_name(model_abbr)
        name = safe_name(dataset_abbr)
        if rows is None:
            return folder / f"{name}.out"
        return folder / f"{name}.rows" / f"{rows[0]}-{rows[1]}.out"

    def job_log(self, job: str) -> Path:
        """Return the path of what a job of a cluster says before it has a task.

        The name of a job, such as ``"17_0"``, must be one that can name a file.
        """
        return self.root / "logs" / "jobs" / f"{job}.out"

    def queue(self, time: str) -> Path:
        """Return the folder through which this process talks to workers on other machines."""
        return self.root / "queue" / f"{time}_{os.getpid()}"

    def summary(self, time: str, suffix: str) -> Path:
        """Return the path of the summary made at ``time``; ``suffix`` is ``"txt"``, ``"csv"``..."""
        return self.root / "summary" / f"summary_{time}.{suffix}"

    @property
    def status(self) -> Path:
        """Path of the file that says how far the run has come."""
        return self.root / "status.json"

    @property
    def size_cache(self) -> Path:
        """Path of the file that remembers how large datasets are, for all runs of a work dir."""
        return self.root.parent / ".cache" / "dataset_size.json"

    def report(self, name: str, dataset_abbr: str) -> Path:
        """Return the path of a report on all models' results of one dataset."""
        return self.root / "summary" / f"{safe_name(name)}_{safe_name(dataset_abbr)}.md"

    def config_dump(self, time: str) -> Path:
        """Return the path of the config that this process runs."""
        return self.root / "configs" / f"{time}_{os.getpid()}.py"
