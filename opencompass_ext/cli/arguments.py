"""The flags of a run."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from typing import Any, NoReturn

from opencompass_ext.cli.cluster import add_cluster_flags, check_cluster_flags
from opencompass_ext.errors import ConfigError, did_you_mean

_DESCRIPTION = """\
Run an evaluation: inference, then evaluation, then a table.

  run.py examples/eval_inference_ppl.py
  run.py --models embedded_smollm2_135m_instruct --datasets gsm8k_answer_nll
  run.py --hf-path /models/opt-125m --custom-dataset-path texts.jsonl

Other commands: 'list [models|datasets|judges|summarizers|types]' lists what is available,
'validate CONFIG...' checks configs without running them; each has its own --help.
"""
_EPILOG = """\
Values of KEY=VALUE are Python literals (dtype=bfloat16 is text, num=2 a number, flag=True a
boolean, sizes=[1,2] a list); anything else is text.

Exit codes: 0 all good, 1 some task failed, 2 a mistake in the config or a flag, 130 interrupted.
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ConfigErrors: one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise a ConfigError."""
        raise ConfigError(f"{message} ({self.prog} --help shows all flags)")


def parse_run_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return the flags of a run.

    Raises:
        ConfigError: Flags that do not exist, do not go together, or have a wrong value.
        SystemExit: ``--help``.
    """
    parser = _parser()
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        _refuse_unknown(unknown, parser)
    if args.mode in ("eval", "viz") and args.reuse is None:
        raise ConfigError(
            f"-m {args.mode} works on predictions that are there: say which run with "
            "-r (the latest) or -r 20260131_120000"
        )
    if args.reuse is not None and args.reuse.endswith(".py"):
        raise ConfigError(
            f"-r took {args.reuse!r} for the time stamp of a run: write the config before -r"
        )
    check_cluster_flags(args)
    return args


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="run.py",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("config", nargs="?", help="a config file; else name models and datasets")
    _add_what(parser.add_argument_group("what to run, without a config file"))
    _add_model(parser.add_argument_group("a quick model"))
    _add_how(parser.add_argument_group("how to run"))
    add_cluster_flags(parser.add_argument_group("where to run, if not on this machine alone"))
    return parser


def _add_what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--models",
        nargs="+",
        default=[],
        metavar="NAME",
        help="files below <config-dir>/models; * and ? are wildcards",
    )
    group.add_argument(
        "--datasets",
        nargs="+",
        default=[],
        metavar="NAME",
        help="files below <config-dir>/datasets: all their variables ending in '_datasets', "
        "or, for NAME/SUFFIX, in SUFFIX",
    )
    group.add_argument(
        "--summarizer", metavar="NAME", help="a file below <config-dir>/summarizers, or FILE/KEY"
    )
    group.add_argument(
        "--config-dir",
        metavar="DIR",
        help="where names are looked up first; then among the configs of this package",
    )
    group.add_argument(
        "--custom-dataset-path",
        metavar="FILE",
        help="a data file of your own with rows {text, label}, label = [[start, end, 1], ...]; "
        "or with any columns and the next two flags",
    )
    group.add_argument(
        "--custom-dataset-template",
        metavar="TEXT",
        help=r"what the model reads, such as 'Q: {question}\nA: {answer}'; \n is a new line",
    )
    group.add_argument(
        "--custom-dataset-labelled-columns",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="the columns of the template to score, such as answer",
    )


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--hf-path", metavar="PATH", help="a folder or hub id of a causal model")
    group.add_argument(
        "--hf-type",
        choices=["base", "chat"],
        help="chat: prompts to answer go through the model's chat template (default: base)",
    )
    group.add_argument(
        "--hf-num-gpus", type=_count, metavar="N", help="default: 1 if there is a GPU, else 0"
    )
    group.add_argument("--tokenizer-path", metavar="PATH")
    group.add_argument("--peft-path", metavar="PATH")
    for flag in ("--model-kwargs", "--tokenizer-kwargs", "--peft-kwargs", "--generation-kwargs"):
        group.add_argument(flag, nargs="+", type=_key_value, metavar="KEY=VALUE")
    for flag in ("--max-seq-len", "--max-out-len", "--batch-size"):
        group.add_argument(flag, type=_positive, metavar="N")
    group.add_argument("--pad-token-id", type=_count, metavar="ID")


def _add_how(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-m",
        "--mode",
        choices=["all", "infer", "eval", "viz"],
        default="all",
        help="infer: predictions only; eval: metrics and table of a run's predictions; viz: its "
        "table only (default: all)",
    )
    group.add_argument(
        "-r",
        "--reuse",
        nargs="?",
        const="latest",
        metavar="TIME",
        help="resume the run with that timestamp (default: the latest), keeping what it has",
    )
    group.add_argument(
        "-w", "--work-dir", metavar="DIR", help="where runs are kept (default: outputs/default)"
    )
    group.add_argument(
        "--limit", type=_positive, metavar="N", help="at most the first N rows of every data set"
    )
    group.add_argument(
        "--max-num-workers", type=_positive, metavar="N", help="worker processes at a time"
    )
    group.add_argument(
        "--max-workers-per-gpu", type=_positive, metavar="N", help="workers that share a GPU"
    )
    group.add_argument(
        "--retry",
        type=_count,
        metavar="N",
        help="retries of a task whose worker died",
    )
    group.add_argument("--dry-run", action="store_true", help="print the plan and write nothing")
    group.add_argument(
        "--debug", action="store_true", help="run tasks in this process, output to the terminal"
    )
    group.add_argument("--fail-fast", action="store_true", help="stop at the first failed task")
    group.add_argument(
        "--no-strict",
        action="store_true",
        help="warn of unknown keys in the config and leave them out instead of refusing them",
    )


def _positive(text: str) -> int:
    return _at_least(1, text)


def _count(text: str) -> int:
    return _at_least(0, text)


def _at_least(minimum: int, text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")
    if int(text) < minimum:
        raise argparse.ArgumentTypeError(f"must be at least {minimum}, got {text}")
    return int(text)


def _key_value(text: str) -> tuple[str, Any]:
    """Return the key and the value of ``KEY=VALUE``.

    Example:
        >>> _key_value("sizes=[1, 2]"), _key_value("dtype=bfloat16")
        (('sizes', [1, 2]), ('dtype', 'bfloat16'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise argparse.ArgumentTypeError(f"must have the form KEY=VALUE, got {text!r}")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def _refuse_unknown(unknown: Sequence[str], parser: argparse.ArgumentParser) -> None:
    flags = [text.partition("=")[0] for text in unknown if text.startswith("-")]
    if not flags:
        raise ConfigError(
            f"one config file at a time, got also {' '.join(unknown)}; "
            "a config reads others inside 'with read_base():'"
        )
    known = [option for action in parser._actions for option in action.option_strings]
    raise ConfigError(f"unknown flag {flags[0]}: {did_you_mean(flags[0], known)}")
