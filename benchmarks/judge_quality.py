r"""How often is a judge right? Its verdicts on claims that people have judged, and their spread.

python benchmarks/judge_quality.py configs/judges/embedded_smollm2_135m.py
OPENAI_BASE_URL=https://host/v1 OPENAI_MODEL=name \
    python benchmarks/judge_quality.py configs/judges/endpoint.py --repeats 3 --out quality.json

The judge is asked whether the sources support a claim; the claims are data/rag's: 200 responses of
BEGIN and 323 claims of ExpertQA. Run it again from time to time: a judge behind an endpoint drifts.
Every repeat asks anew, so each costs as many calls; nothing is cached.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from opencompass_ext.config import load_config
from opencompass_ext.datasets import RAGDataset
from opencompass_ext.errors import ConfigError, OpenCompassExtError
from opencompass_ext.judging import BaseJudge, Match, Source, Verdict
from opencompass_ext.judging.session import JudgeSession
from opencompass_ext.metrics.binary import Confusion, mcc, wilson_interval
from opencompass_ext.metrics.roc import roc_auc, roc_auc_interval
from opencompass_ext.registry import JUDGES

SETS = {"begin_wow": None, "expertqa_claims": "row"}
"""Labelled sets of data/rag -> column of what is resampled for intervals, None for rows."""


def read_claims(name: str, limit: int | None) -> list[dict[str, Any]]:
    """Return the labelled rows of a set; their order is that of a hash, so any first ones do."""
    rows = RAGDataset(path="data/rag", name=name, limit=limit).test
    return [dict(row) for row in rows if row["grounded"] is not None]


def ask(
    judge: BaseJudge, rows: Sequence[Mapping[str, Any]], options: Mapping[str, Any], folder: Path
) -> tuple[list[Verdict], Mapping[str, Any]]:
    """Return the judge's verdict on each row's response, and what they cost."""
    questions = [
        Match(
            "supported",
            (row["response"],),
            query=row["query"],
            sources=tuple(Source(s["id"], s["text"]) for s in row["sources"]),
        )
        for row in rows
    ]
    with JudgeSession(judge, folder / "transcript.jsonl", None, **options) as session:
        verdicts = [verdict for (verdict,) in session.match(questions)]
        return verdicts, session.usage()


def quality(
    rows: Sequence[Mapping[str, Any]], verdicts: Sequence[Verdict], unit: str | None
) -> dict[str, Any]:
    """Return how well verdicts agree with labels; unreadable ones count as neither.

    Args:
        rows: With ``grounded``, 1 or 0.
        verdicts: One per row.
        unit: Column of what is resampled for the interval of the AUC.
    """
    read = [(row, v) for row, v in zip(rows, verdicts, strict=True) if v.is_yes is not None]
    pairs = [(bool(row["grounded"]), bool(v.is_yes)) for row, v in read]
    counts = Counter(pairs)
    right = counts[True, True] + counts[False, False]
    supported = sum(label for label, _ in pairs)
    confusion = Confusion(
        tp=counts[True, True],
        fp=counts[False, True],
        fn=counts[True, False],
        tn=counts[False, False],
    )
    found = {
        "n": len(rows),
        "unreadable": dict(Counter(v.reason or "unknown" for v in verdicts if v.is_yes is None)),
        "unsure": sum(v.is_unsure for v in verdicts),
        "accuracy": right / len(pairs) if pairs else None,
        "accuracy_ci95": wilson_interval(right, len(pairs)),
        "majority": max(supported, len(pairs) - supported) / len(pairs) if pairs else None,
        "says_yes": sum(said for _, said in pairs) / len(pairs) if pairs else None,
        "mcc": mcc(confusion),
        "auc": None,
        "auc_ci95": None,
    }
    graded = [(row, v.probability) for row, v in read if v.probability is not None]
    if graded:
        labels = [bool(row["grounded"]) for row, _ in graded]
        chances = [chance for _, chance in graded]
        units = None if unit is None else [row[unit] for row, _ in graded]
        found["auc"] = roc_auc(labels, chances)
        found["auc_ci95"] = roc_auc_interval(labels, chances, units, seed=0)
    return found


def spread(repeats: Sequence[Sequence[Verdict]], accuracies: Sequence[float]) -> dict[str, Any]:
    """Return how far repeated runs of one judge differ from each other.

    Args:
        repeats: The verdicts of each run.
        accuracies: The accuracy of each run.
    """
    changed = sum(len({v.is_yes for v in verdicts}) > 1 for verdicts in zip(*repeats, strict=True))
    mean = math.fsum(accuracies) / len(accuracies)
    deviations = math.fsum((a - mean) ** 2 for a in accuracies)
    return {
        "repeats": len(repeats),
        "changed_verdicts": changed,
        "changed_share": changed / len(repeats[0]),
        "accuracy_lowest": min(accuracies),
        "accuracy_highest": max(accuracies),
        "accuracy_sd": math.sqrt(deviations / (len(accuracies) - 1)),
    }


def measure(judge_cfg: Mapping[str, Any], name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return all that is known of a judge on one set."""
    rows = read_claims(name, args.limit)
    options = {"lang": args.lang, "units_per_call": 1}
    repeats: list[list[Verdict]] = []
    usage: Mapping[str, Any] = {}
    started = time.monotonic()
    for _ in range(args.repeats):
        with tempfile.TemporaryDirectory() as folder:
            verdicts, usage = ask(JUDGES.build(judge_cfg), rows, options, Path(folder))
        repeats.append(verdicts)
    seconds = (time.monotonic() - started) / args.repeats
    runs = [quality(rows, verdicts, SETS[name]) for verdicts in repeats]
    found = {"set": name, **runs[0], "seconds_per_run": seconds, "usage": usage}
    accuracies = [run["accuracy"] for run in runs if run["accuracy"] is not None]
    if len(accuracies) > 1:
        found["spread"] = spread(repeats, accuracies)
    return found


def shown(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Return a number with three decimals and its interval."""
    if value is None:
        return "-"
    return f"{value:.3f}" + ("" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]")


def print_table(results: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per set."""
    table = Table("claims", "n", "accuracy", "always the same", "says yes", "MCC", "AUC", "changed")
    for of in results:
        table.add_row(
            of["set"],
            str(of["n"])
            + (f" ({sum(of['unreadable'].values())} unreadable)" * bool(of["unreadable"])),
            shown(of["accuracy"], of["accuracy_ci95"]),
            shown(of["majority"]),
            shown(of["says_yes"]),
            shown(of["mcc"]),
            shown(of["auc"], of["auc_ci95"]),
            "-" if "spread" not in of else f"{of['spread']['changed_share']:.1%} of {of['n']}",
        )
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    console.print(
        "[low, high]: Wilson's interval of the accuracy, bootstrap interval of the AUC, 95 %. "
        "Always the same: the accuracy of whoever gives every claim the commoner verdict.",
        markup=False,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the judge of a config and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("config", type=Path, help="a config file with a 'judge', as configs/judges")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="default: all")
    parser.add_argument("--limit", type=int, help="only the first so many claims of each set")
    parser.add_argument("--repeats", type=int, default=1, help="runs, to see what repeating moves")
    parser.add_argument("--lang", default="en", help="language of the prompts, or their folder")
    parser.add_argument("--out", type=Path, help="write all figures to this JSON file")
    args = parser.parse_args(argv)
    if args.repeats < 1 or (args.limit is not None and args.limit < 1):
        parser.error("--repeats and --limit must be at least 1")
    if args.out is not None and (args.out.is_dir() or not args.out.absolute().parent.is_dir()):
        # Before the judge is paid.
        parser.error(f"--out {args.out} must be a file in a folder that exists")
    try:
        config = load_config(args.config)
        if "judge" not in config:
            raise ConfigError(f"{args.config} has no 'judge': see configs/judges for two")
        results = [measure(config["judge"], name, args) for name in args.sets]
    except OpenCompassExtError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print_table(results)
    if args.out is not None:
        args.out.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
