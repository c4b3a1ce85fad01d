"""Compares the scoring engine with a straightforward loop, side by side on the same real rows.

python benchmarks/bench_scoring.py                          all profiles, float32, CPU
python benchmarks/bench_scoring.py --dtype bfloat16 --profiles answer_only
python benchmarks/bench_scoring.py --device cuda --dtype bfloat16 --path /models/my-model

Every method scores the same labelled tokens. Speed is tokens of the texts per second: tokens that
a method need not read (duplicates, shared beginnings) count for it. The loop runs on the first rows
of a profile when all would take too long; its speed is per token too.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table

from opencompass_ext.likelihood.batching import BatchLimits, make_batches
from opencompass_ext.likelihood.encoding import encode_parts
from opencompass_ext.likelihood.engine import Engine, EngineOptions
from opencompass_ext.likelihood.scorer import ScorerOptions, SpanScorer
from opencompass_ext.likelihood.spans import count_tokens
from opencompass_ext.models.embedded import is_embedded, resolve_embedded
from opencompass_ext.models.loading import LoadedModel, load_model
from opencompass_ext.records import LabelledText

DATA = Path(__file__).resolve().parents[1] / "data" / "inference_ppl"


# Profiles: real rows, as users have them.


def read_rows(name: str, count: int) -> list[dict[str, Any]]:
    """Return the first rows of a shipped set."""
    with (DATA / f"{name}.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line, _ in zip(file, range(count), strict=False)]


def labelled(row: dict[str, Any]) -> LabelledText:
    """Return a row as the text it is and the spans it labels."""
    return LabelledText(row["text"], {"label": tuple((s[0], s[1]) for s in row["label"])})


def answer_only() -> list[LabelledText]:
    """8 English and 8 Chinese rows of which the final answer is labelled."""
    rows = read_rows("en_gsm8k_answer", 8) + read_rows("zh_gaokao_answer", 8)
    return [labelled(row) for row in rows]


def all_labelled() -> list[LabelledText]:
    """The same texts, every character labelled."""
    return [LabelledText(t.text, {"label": ((0, len(t.text)),)}) for t in answer_only()]


def few_shot() -> list[LabelledText]:
    """100 rows behind the same 5 examples, the reasoning labelled."""
    rows = read_rows("en_gsm8k_reasoning", 105)
    shots = "".join(row["text"] + "\n\n" for row in rows[:5])
    texts = []
    for row in rows[5:]:
        spans = tuple((len(shots) + s[0], len(shots) + s[1]) for s in row["label"])
        texts.append(LabelledText(shots + row["text"], {"label": spans}))
    return texts


def eight_answers(question_chars: int = 250, answer_chars: int = 50) -> list[LabelledText]:
    """4 questions of about 400 tokens with 8 answers of about 80 each, the answers labelled."""
    rows = read_rows("zh_gaokao_reasoning", 40)
    answers = [row["text"][row["label"][0][0] :][:answer_chars] for row in rows[:8]]
    questions = [row["text"][: row["label"][0][0]] for row in rows]
    questions = sorted(questions, key=lambda question: abs(len(question) - question_chars))[:4]
    return [
        LabelledText(q + a, {"label": ((len(q), len(q + a)),)}) for q in questions for a in answers
    ]


def pplqa() -> list[LabelledText]:
    """4 questions of some 280 tokens, 8 answers of some 60: all of both, and each answer alone."""
    both, alone = [], []
    for text in eight_answers(question_chars=165, answer_chars=37):
        start, end = text.spans["label"][0]
        answer = text.text[start:end]
        both.append(LabelledText(text.text, {"label": ((0, end),)}, cuts=(start,)))
        alone.append(LabelledText(answer, {"label": ((0, len(answer)),)}))
    # Question by question, so that a loop's batches hold texts of like length.
    return [t for i in range(0, len(both), 8) for t in (*both[i : i + 8], *alone[i : i + 8])]


def half_duplicates() -> list[LabelledText]:
    """The 16 rows of ``answer_only``, each twice."""
    return answer_only() * 2


def long_documents() -> list[LabelledText]:
    """2 documents of about 3,000 tokens, made of worked solutions, the last solution labelled."""
    rows = read_rows("en_gsm8k_reasoning", 36)
    texts = []
    for part in (rows[:18], rows[18:]):
        before = "".join(row["text"] + "\n\n" for row in part[:-1])
        (start, end, *_), last = part[-1]["label"][0], part[-1]["text"]
        span = (len(before) + start, len(before) + end)
        texts.append(LabelledText(before + last, {"label": (span,)}))
    return texts


PROFILES: dict[str, Callable[[], list[LabelledText]]] = {
    f.__name__: f
    for f in (
        *(answer_only, all_labelled, few_shot),
        *(eight_answers, pplqa, half_duplicates, long_documents),
    )
}


# Methods: each returns the summed NLL of every text it was given.


class Encoded(NamedTuple):
    """Token ids of a text with its prefix, and the positions of its labelled tokens."""

    ids: list[int]
    targets: list[int]


def encode(texts: Sequence[LabelledText], loaded: LoadedModel) -> list[Encoded]:
    """Tokenise outside of all timings but the engine's own."""
    prefix = list(loaded.text_side.prefix_ids)
    encoded = []
    tokenised = encode_parts(loaded.text_side.encoder.encode, texts)
    for text, enc in zip(texts, tokenised, strict=True):
        counted = count_tokens(enc, text.spans["label"], len(text.text)).tokens + len(prefix)
        targets = [t for t in counted.tolist() if t >= 1]
        encoded.append(Encoded(prefix + enc.ids.tolist(), targets))
    return encoded


def run_loop(model: Any, rows: Sequence[Encoded], batch_size: int) -> list[float]:
    """Batches in the order given, padded to their longest row, full logits, full log-softmax."""
    device = model.get_input_embeddings().weight.device
    sums = []
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        longest = max(len(row.ids) for row in batch)
        ids = torch.tensor([row.ids + [0] * (longest - len(row.ids)) for row in batch])
        mask = torch.tensor([[i < len(row.ids) for i in range(longest)] for row in batch])
        with torch.inference_mode():
            output = model(input_ids=ids.to(device), attention_mask=mask.long().to(device))
            log_probs = output.logits[:, :-1].float().log_softmax(dim=-1)
            picked = log_probs.gather(-1, ids[:, 1:, None].to(device)).squeeze(-1).cpu().double()
        for i, row in enumerate(batch):
            sums.append(-math.fsum(picked[i, [t - 1 for t in row.targets]].tolist()))
    return sums


def run_trunk(model: Any, rows: Sequence[Encoded], tokens: int) -> None:
    """The model without its head, over the same rows in batches of like length."""
    device = model.get_input_embeddings().weight.device
    lengths = {i: len(row.ids) for i, row in enumerate(rows)}
    for batch in make_batches(lengths, BatchLimits(tokens, 0)):
        longest = lengths[batch[0]]
        ids = torch.tensor([rows[i].ids + [0] * (longest - lengths[i]) for i in batch])
        with torch.inference_mode():
            model.base_model(input_ids=ids.to(device), use_cache=False)


def run_engine(loaded: LoadedModel, texts: Sequence[LabelledText], engine: Engine) -> list[float]:
    """The product: tokenising, mapping spans and all."""
    options = ScorerOptions(
        prefix_ids=loaded.text_side.prefix_ids, max_seq_len=loaded.text_side.max_seq_len
    )
    scorer = SpanScorer(loaded.text_side.encoder, engine, options)
    sums = {}
    for batch in scorer.score(texts):
        sums.update({i: scored.spans["label"].nll for i, scored in batch.items()})
    return [sums[i] for i in range(len(texts))]


def make_lm_eval(loaded: LoadedModel, path: str) -> Callable[[Sequence[LabelledText]], list[float]]:
    """Return lm-evaluation-harness's loglikelihood of what is labelled, on the same weights."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoTokenizer

    harness = HFLM(
        pretrained=loaded.model, tokenizer=AutoTokenizer.from_pretrained(path), batch_size=8
    )

    def run(texts: Sequence[LabelledText]) -> list[float]:
        requests = []
        for i, text in enumerate(texts):
            start, end = text.spans["label"][0]
            arguments = (text.text[:start], text.text[start:end])
            requests.append(Instance("loglikelihood", {}, arguments, i))
        return [-total for total, _ in harness.loglikelihood(requests, disable_tqdm=True)]

    return run


# Measuring.


class Measured(NamedTuple):
    """Seconds, peak memory above what stood there before in MB, and what the method returned."""

    seconds: float
    peak_mb: float
    value: Any


def measure(device: str, method: Callable[[], Any]) -> Measured:
    """Run a method once and measure it."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        start = time.perf_counter()
        value = method()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        return Measured(seconds, (torch.cuda.max_memory_allocated() - before) / 2**20, value)
    with peak_resident_memory() as peak:
        start = time.perf_counter()
        value = method()
        seconds = time.perf_counter() - start
    return Measured(seconds, peak.megabytes, value)


class _Peak:
    megabytes = 0.0


@contextmanager
def peak_resident_memory() -> Iterator[_Peak]:
    """Sample this process's resident memory every few milliseconds."""
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    before, peak, stop = resident_bytes(), _Peak(), threading.Event()

    def sample() -> None:
        while not stop.wait(0.005):
            peak.megabytes = max(peak.megabytes, (resident_bytes() - before) / 2**20)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peak
    finally:
        stop.set()
        sampler.join()


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def matmul_peak(device: str, dtype: torch.dtype) -> float:
    """Return the best GFLOP/s of a large square product."""
    size = 8192 if device.startswith("cuda") else 2048
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    best = math.inf
    for _ in range(6):
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        start = time.perf_counter()
        a @ b
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


# The table.


def bench_profile(
    name: str, loaded: LoadedModel, args: argparse.Namespace
) -> list[tuple[str, float, float | None, float | None]]:
    """Return (method, tokens per second, peak MB, largest relative difference) per method."""
    texts = PROFILES[name]()
    rows = encode(texts, loaded)
    tokens = sum(len(row.ids) for row in rows)
    options = EngineOptions(max_batch_tokens=args.max_batch_tokens)
    engine = Engine(loaded.model, loaded.traits, options)
    some = rows[: args.loop_rows]
    some_tokens = sum(len(row.ids) for row in some)

    def difference(sums: Sequence[float], reference: Sequence[float]) -> float:
        pairs = zip(sums, reference, strict=False)
        return max(abs(a - b) / max(1.0, abs(b)) for a, b in pairs)

    methods: list[tuple[str, int, Callable[[], Any]]] = [
        ("engine", tokens, lambda: run_engine(loaded, texts, engine)),
        ("bare trunk", some_tokens, lambda: run_trunk(loaded.model, some, engine.limits.tokens)),
        ("loop, batch 1", some_tokens, lambda: run_loop(loaded.model, some, 1)),
        ("loop, batch 8", some_tokens, lambda: run_loop(loaded.model, some, 8)),
    ]
    if args.lm_eval:
        lm_eval = make_lm_eval(loaded, args.path)
        first = texts[: args.loop_rows]
        methods.append(("lm-eval, batch 8", some_tokens, lambda: lm_eval(first)))
    best: dict[str, Measured] = {}
    # Turn by turn, so that what else the machine does meets all methods alike.
    for _ in range(args.repeat):
        for method, _, run in methods:
            measured = measure(args.device, run)
            if method not in best or measured.seconds < best[method].seconds:
                best[method] = measured
    reference = best["loop, batch 1"].value
    results = []
    for method, count, _ in methods:
        value = best[method].value
        largest = None if value is None else difference(value[: len(reference)], reference)
        speed = count / best[method].seconds
        results.append((method, speed, best[method].peak_mb, largest))
    return results


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--path", default="embedded:smollm2-135m-instruct")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads")
    parser.add_argument("--max-batch-tokens", type=int, default=None)
    parser.add_argument("--profiles", nargs="+", choices=PROFILES, default=list(PROFILES))
    parser.add_argument("--loop-rows", type=int, default=16, help="rows of a profile the loop runs")
    parser.add_argument("--repeat", type=int, default=2, help="the best of so many runs counts")
    parser.add_argument("--lm-eval", action="store_true", help="needs lm_eval installed")
    return parser.parse_args()


def main() -> None:
    """Run the benchmark and print one table."""
    args = parse_arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    if is_embedded(args.path):
        args.path = str(resolve_embedded(args.path))
    dtype = getattr(torch, args.dtype)
    loaded = load_model(args.path, model_kwargs=dict(dtype=dtype, device_map=args.device))
    peak = matmul_peak(args.device, dtype)
    embeddings = loaded.model.get_input_embeddings().weight.numel()
    parameters = sum(p.numel() for p in loaded.model.base_model.parameters()) - embeddings
    console = Console(width=max(100, Console().width))
    table = Table(
        title=f"{args.dtype}, {args.device}, {torch.get_num_threads()} threads, "
        f"matmul peak {peak:.0f} GFLOP/s"
    )
    for column in ("profile", "method", "tokens/s", "engine is", "peak MB", "max difference"):
        table.add_column(column, justify="left" if column in ("profile", "method") else "right")
    for name in args.profiles:
        results = bench_profile(name, loaded, args)
        engine_speed = results[0][1]
        for i, (method, speed, peak_mb, difference) in enumerate(results):
            table.add_row(
                name if i == 0 else "",
                method,
                f"{speed:,.0f}",
                f"{engine_speed / speed:.2f}x",
                f"{peak_mb:,.0f}",
                "-" if difference is None else f"{difference:.1e}",
            )
        print(f"{name} done", file=sys.stderr)
        table.add_section()
    console.print(table)
    print(f"one token of the trunk is {2 * parameters / 1e9:.3f} GFLOP in its matrices")


if __name__ == "__main__":
    main()
