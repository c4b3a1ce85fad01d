"""The errors a user can meet, and the exit code each leads to.

Every error here is the user's to mend, so its text says what was expected, what came, where, and
what to do. Anything else that is raised is a bug and keeps its traceback.

    OpenCompassExtError
    ├── ConfigError              a config, a flag or a name in them        exit code 2
    ├── DataError                a data file, or a row of it               the task fails, 1
    │   └── TextError            a text no model can read, or too long     the task fails, 1
    ├── ModelError               weights, tokenizer, device                the task fails, 1
    │   └── ModelLoadError       no dataset can be done with this model    all of its tasks fail
    ├── MissingDependencyError   an optional package is not installed      the task fails, 1
    ├── PredictionsError         a predictions file that cannot be used    the task fails, 1
    ├── IncompleteError          results are written, with rows missing    the task fails, 1
    └── OutputError              a file cannot be written: full disk, ...  the task fails, 1
"""

from __future__ import annotations


class OpenCompassExtError(Exception):
    """Base of all errors that are the user's to mend."""


class ConfigError(OpenCompassExtError):
    """A config file, a command-line flag, or a name used in one of them is wrong."""


class DataError(OpenCompassExtError):
    """A data file, or one row of it, is not what the dataset expects."""


class TextError(DataError):
    """One of many texts cannot be scored.

    Attributes:
        index: Which of the texts.
        problem: What is wrong with it.

    Example:
        >>> print(TextError(3, "it is too long"))
        row 3: it is too long
    """

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"row {index}: {problem}")
        self.index = index
        self.problem = problem


class ModelError(OpenCompassExtError):
    """A model, its tokenizer or its device cannot be used as asked."""


class ModelLoadError(ModelError):
    """A model cannot be loaded at all, so that all its datasets fail alike."""


class MissingDependencyError(OpenCompassExtError):
    """An optional package is needed and not installed.

    Example:
        >>> print(MissingDependencyError("peft", needed_for="peft_path", extra="peft"))
        'peft_path' needs the package 'peft': pip install "opencompass_ext[peft]"
    """

    def __init__(self, package: str, *, needed_for: str, extra: str) -> None:
        super().__init__(
            f'{needed_for!r} needs the package {package!r}: pip install "opencompass_ext[{extra}]"'
        )


class PredictionsError(OpenCompassExtError):
    """A predictions file is missing, incomplete, or lacks a column the evaluator asks for."""


class IncompleteError(OpenCompassExtError):
    """An evaluation went through and its results are written, but rows are missing from them."""


class OutputError(OpenCompassExtError):
    """A file or folder of the run cannot be written: full disk, or no permission."""


def did_you_mean(name: str, known: list[str] | tuple[str, ...]) -> str:
    """Return a sentence part that offers the names nearest to ``name``, or lists all of them.

    Example:
        >>> did_you_mean("NaivePartitoner", ["NaivePartitioner", "LocalRunner"])
        "did you mean 'NaivePartitioner'?"
        >>> did_you_mean("x", ["b", "a"])
        'known names: a, b'
    """
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(repr(n) for n in near) + "?"
    return "known names: " + ", ".join(sorted(known))
