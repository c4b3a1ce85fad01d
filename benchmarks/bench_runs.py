"""Measures what a run costs beside its model: starting, planning, keeping rows, joining parts.

python benchmarks/bench_runs.py                         all, a quarter of an hour on two cores
python benchmarks/bench_runs.py --only sets workers     some of it
python benchmarks/bench_runs.py --only growth --most-rows 100000

    sets      50 data sets of 20 rows against one of 1,000, one model, one worker
    plan      a dry run of 10 models on 100 data sets: time and memory
    workers   two workers against one, on the CPU
    ray       50 data sets of 20 rows by Ray against worker processes, once a worker has started
    growth    partition, journal and merge of up to a million rows

All but ``growth`` and ``plan`` score with a small Llama of random weights made here, which takes
as long as one that was trained. Judge by ratios within a run: other programs on the machine slow
down all of it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
WORDS = (
    *("the", "cat", "sat", "on", "a", "mat", "and"),
    *("saw", "that", "it", "was", "good", "with", "milk"),
)


class Measured(NamedTuple):
    """One line of the table."""

    what: str
    value: str
    target: str


class Timed(NamedTuple):
    """What a run took, its workers included: of the CPU other programs take nothing away."""

    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.cpu_seconds:.1f} s of CPU"


# Data, models and configs.


def write_rows(path: Path, count: int, words: int, seed: int = 0) -> Path:
    """Write rows of random words, all of them labelled."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for i in range(count):
            text = f"{i} " + " ".join(draw.choices(WORDS, k=words))
            file.write(json.dumps({"text": text, "label": [[0, len(text), 1]]}) + "\n")
    return path


def dataset(path: Path) -> dict[str, Any]:
    """Return the config of a data set."""
    return {
        "abbr": path.stem,
        "type": "InferencePPLDataset",
        "path": str(path),
        "reader_cfg": {"input_columns": ["text"], "output_column": None},
        "infer_cfg": {
            "prompt_template": {"type": "PromptTemplate", "template": "{text}"},
            "retriever": {"type": "ZeroRetriever"},
            "inferencer": {"type": "InferencePPLOnlyInferencer"},
        },
        "eval_cfg": {"evaluator": {"type": "AverageInferencePPLEvaluator"}},
    }


def make_model(folder: Path, hidden_size: int, layers: int) -> dict[str, Any]:
    """Save a random Llama with a byte-level tokenizer and return its config."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

    pieces = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    wrapped.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(pieces),
        hidden_size=hidden_size,
        intermediate_size=4 * hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=hidden_size // 32,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return {"type": "HuggingFaceBaseModel", "abbr": folder.name, "path": str(folder)}


def run(config: dict[str, Any], folder: Path, threads: int | None = None) -> Timed:
    """Carry out the inference of a run in a process of its own.

    Args:
        config: The config.
        folder: For what is written.
        threads: Threads of each worker; None leaves them to the run.
    """
    job = folder / "job.json"
    job.write_text(json.dumps([config, {"config_text": "", "mode": "infer"}]))
    code = (
        "import json, sys; from opencompass_ext.running.run import execute; "
        "config, arguments = json.load(open(sys.argv[1])); sys.exit(execute(config, **arguments))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, str(job)], env=environment, capture_output=True, text=True
    )
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"the run failed:\n{done.stdout}\n{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timed(seconds, cpu)


def config(
    models: Sequence[dict[str, Any]],
    datasets: Sequence[dict[str, Any]],
    folder: Path,
    workers: int = 1,
    partitioner: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the config of a run."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    infer: dict[str, Any] = {"runner": {"type": "LocalRunner", "max_num_workers": workers}}
    if partitioner is not None:
        infer["partitioner"] = partitioner
    return {
        "models": list(models),
        "datasets": list(datasets),
        "infer": infer,
        "work_dir": str(folder / "out"),
    }


# What is measured.


def measure_sets(folder: Path, options: argparse.Namespace) -> list[Measured]:
    """Many small data sets must cost little more than a large one: the model is loaded once."""
    model = make_model(folder / "model", hidden_size=256, layers=4)
    one = write_rows(folder / "one.jsonl", 1000, words=12)
    small = cut(one, sets=50)
    together = run(config([model], [dataset(one)], folder), folder)
    apart = run(config([model], small, folder), folder)
    return [
        Measured("one set of 1,000 rows", str(together), ""),
        Measured("50 sets of 20 rows", str(apart), ""),
        Measured("50 sets / one set", _ratio(apart, together), "< 1.3"),
    ]


def _ratio(one: Timed, other: Timed) -> str:
    seconds, cpu = (a / b for a, b in zip(one, other, strict=True))
    return f"{seconds:.2f}, of CPU {cpu:.2f}"


def cut(path: Path, sets: int) -> list[dict[str, Any]]:
    """Write the rows of a file to files of equal size; return the configs of data sets."""
    lines = path.read_text().splitlines(keepends=True)
    size = len(lines) // sets
    datasets = []
    for i in range(sets):
        part = path.with_name(f"set{i}.jsonl")
        part.write_text("".join(lines[size * i : size * (i + 1)]))
        datasets.append(dataset(part))
    return datasets


def measure_plan(folder: Path, options: argparse.Namespace) -> list[Measured]:
    """A dry run must answer at once."""
    lines = ["models = [dict(type='ScriptedModel', abbr=f'm{i}', path=str(i)) for i in range(10)]"]
    sets = [dataset(write_rows(folder / f"set{i}.jsonl", 200, words=40)) for i in range(100)]
    lines.append(f"datasets = {sets!r}")
    path = folder / "config.py"
    path.write_text("\n".join(lines) + "\n")
    command = [sys.executable, str(ROOT / "run.py"), str(path), "--dry-run", "-w", str(folder)]
    timed = []
    for _ in range(3):
        with open(folder / "plan.txt", "w") as output:
            start = time.monotonic()
            process = subprocess.Popen(command, stdout=output, cwd=folder)
            _, status, usage = os.wait4(process.pid, 0)
            timed.append((time.monotonic() - start, usage.ru_utime + usage.ru_stime))
        if status != 0:
            raise SystemExit("the dry run failed")
    seconds, cpu = min(timed)
    count = (folder / "plan.txt").read_text().count("command:")
    return [
        Measured("dry run, tasks told", f"{count:,}", "2,000"),
        Measured("dry run, wall time, best of 3", f"{seconds:.2f} s", "< 2 s"),
        Measured("dry run, CPU time", f"{cpu:.2f} s", ""),
        Measured("dry run, peak memory", f"{usage.ru_maxrss / 1024:.0f} MB", "< 200 MB"),
    ]


def measure_workers(folder: Path, options: argparse.Namespace) -> list[Measured]:
    """Two workers on the CPU, each with half of the rows, against one with as many threads each."""
    model = make_model(folder / "model", hidden_size=256, layers=4)
    data = dataset(write_rows(folder / "data.jsonl", options.rows, words=60))
    partitioner = {"type": "NumWorkerPartitioner", "num_worker": 2}

    def timed(workers: int, threads: int | None) -> Timed:
        return run(config([model], [data], folder, workers, partitioner), folder, threads)

    one, two, one_with_all = timed(1, 1), timed(2, 1), timed(1, None)
    return [
        Measured(f"1 worker with 1 thread, {options.rows:,} rows", str(one), ""),
        Measured("2 workers with 1 thread each", str(two), ""),
        Measured("1 worker with all cores", str(one_with_all), ""),
        Measured("time of one / of two", _ratio(one, two), ">= 1.6"),
    ]


def measure_ray(folder: Path, options: argparse.Namespace) -> list[Measured]:
    """What Ray adds from the start of the first task on to the end of the last."""
    model = make_model(folder / "model", hidden_size=256, layers=4)
    small = cut(write_rows(folder / "one.jsonl", 1000, words=12), sets=50)
    timed: dict[str, list[float]] = {"LocalRunner": [], "RayRunner": []}
    for _ in range(2):
        for runner, seconds in timed.items():
            seconds.append(_seconds_at_work(config([model], small, folder), runner, folder))
    local, ray = (min(seconds) for seconds in timed.values())
    return [
        Measured("50 sets of 20 rows, a worker process, best of 2", f"{local:.1f} s", ""),
        Measured("50 sets of 20 rows, an actor of Ray, best of 2", f"{ray:.1f} s", ""),
        Measured("Ray / worker process", f"{ray / local:.2f}", "< 1.25"),
    ]


def _seconds_at_work(settings: dict[str, Any], runner: str, folder: Path) -> float:
    from opencompass_ext.outputs import RunFolder
    from opencompass_ext.running.plan import plan_stage
    from opencompass_ext.running.progress import Progress

    moments: list[float] = []

    class Stopwatch(Progress):
        def started(self, pair: Any) -> None:
            super().started(pair)
            moments.append(time.monotonic())

        def closed(self, outcome: Any, how: str, *, is_told: bool = False) -> None:
            super().closed(outcome, how, is_told=is_told)
            moments.append(time.monotonic())

    settings["infer"]["runner"] = {"type": runner, "max_num_workers": 1}
    stage = plan_stage(settings, "infer", RunFolder(folder / "out" / "20260101_000000"))
    with Stopwatch("infer", len(stage.tasks)) as progress:
        outcomes = stage.runner.run(stage.tasks, progress)
    if any(outcome.status != "done" for outcome in outcomes):
        raise SystemExit(f"tasks failed: {outcomes[0].error}")
    return moments[-1] - moments[0]


def measure_growth(folder: Path, options: argparse.Namespace) -> list[Measured]:
    """Time per row must not grow with the rows."""
    measured = []
    counts = [n for n in (10_000, 100_000, 1_000_000) if n <= options.most_rows]
    for count in counts:
        path = write_rows(folder / f"rows{count}.jsonl", count, words=8)
        steps = _timed_steps(path, count, folder)
        micros = ", ".join(f"{name} {1e6 * s / count:.1f}" for name, s in steps.items())
        measured.append(Measured(f"{count:,} rows, microseconds a row", micros, "level"))
        path.unlink()
    return measured


def _timed_steps(path: Path, count: int, folder: Path) -> dict[str, float]:
    """Return the seconds of planning, of keeping rows, and of joining the parts."""
    from opencompass_ext.models import ScriptedModel
    from opencompass_ext.outputs import RunFolder
    from opencompass_ext.predictions.file import PredictionsFile
    from opencompass_ext.predictions.merging import merge_parts
    from opencompass_ext.records import LabelledText, likelihood_to_row
    from opencompass_ext.running.plan import plan_stage

    shutil.rmtree(folder / "out", ignore_errors=True)
    run_folder = RunFolder(folder / "out" / "20260101_000000")
    settings = config(
        [{"type": "ScriptedModel", "abbr": "m"}],
        [dataset(path)],
        folder,
        partitioner={"type": "NumWorkerPartitioner", "num_worker": 8},
    )
    start = time.monotonic()
    stage = plan_stage(settings, "infer", run_folder)
    seconds = {"partition": time.monotonic() - start}
    ranges = [rows for task in stage.tasks for rows in task.rows if rows is not None]
    predictions = run_folder.predictions("m", path.stem)
    model = ScriptedModel(batch_rows=1000)
    texts = [LabelledText(f"row {i} of many", {"label": ((0, 3),)}) for i in range(count)]
    keys = [f"{i:032x}" for i in range(count)]
    times = {"journal": 0.0, "final file": 0.0}
    for rows in ranges:
        mine = texts[rows.start : rows.stop]
        own_keys = keys[rows.start : rows.stop]
        with PredictionsFile(predictions, own_keys, rows, own_keys) as part:
            for batch in model.score_spans(mine):
                new = {
                    i: {
                        "origin_prompt": mine[i].text,
                        **likelihood_to_row(scored.spans["label"], scored.long_text),
                    }
                    for i, scored in batch.items()
                }
                start = time.monotonic()
                part.append(new)
                times["journal"] += time.monotonic() - start
            start = time.monotonic()
            part.finish({})
            times["final file"] += time.monotonic() - start
    start = time.monotonic()
    merge_parts(predictions, ranges)
    times["merge"] = time.monotonic() - start
    if sum(1 for line in predictions.open() if line.startswith('    "')) != count:
        raise SystemExit("rows are missing")
    return {**seconds, **times}


PARTS: dict[str, Callable[[Path, argparse.Namespace], list[Measured]]] = {
    "sets": measure_sets,
    "plan": measure_plan,
    "workers": measure_workers,
    "ray": measure_ray,
    "growth": measure_growth,
}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=1500, help="rows of 'workers'")
    parser.add_argument("--most-rows", type=int, default=1_000_000, help="of 'growth'")
    options = parser.parse_args()
    table = Table("measured", "value", "target")
    for name in options.only:
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            for line in PARTS[name](Path(folder), options):
                table.add_row(*line)
        table.add_row(f"(load of the machine before: {load:.1f})", "", "", end_section=True)
    Console().print(table)


if __name__ == "__main__":
    main()
