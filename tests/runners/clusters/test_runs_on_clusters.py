"""Whole runs from the command line, interrupted and gone on with."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.tiny import tiny_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

ROOT = Path(__file__).parents[3]
ROWS = 24
CONFIG = """
models = [
    dict(type="HuggingFaceBaseModel", abbr="tiny", path="./tiny"),
    dict(type="ScriptedModel", abbr="slow 模型", batch_size=2, seconds_per_batch=0.3),
]
datasets = [
    dict(
        abbr=abbr,
        type="InferencePPLDataset",
        path="rows.jsonl",
        reader_cfg=dict(input_columns=["text"], output_column=None),
        infer_cfg=dict(
            prompt_template=dict(type="PromptTemplate", template="{text}"),
            retriever=dict(type="ZeroRetriever"),
            inferencer=dict(type="InferencePPLOnlyInferencer"),
        ),
        eval_cfg=dict(evaluator=dict(type="AverageInferencePPLEvaluator")),
    )
    for abbr in ("a", "b")
]
work_dir = "out put"
"""


@pytest.fixture
def folder(tmp_path):
    """A working folder with a config, data, and a model of some kilobytes."""
    (tmp_path / "eval.py").write_text(CONFIG)
    rows = [{"text": f"row {i} is here", "label": [[0, 5, 1]]} for i in range(ROWS)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tiny_model("llama").save_pretrained(tmp_path / "tiny")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<bos>", "<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>"
    ).save_pretrained(tmp_path / "tiny")
    return tmp_path


def start(folder, *flags):
    return subprocess.Popen(
        [sys.executable, "-m", "opencompass_ext", "eval.py", *flags],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process, code):
    output, _ = process.communicate(timeout=240)
    assert process.returncode == code, output
    return output


def predictions(folder):
    return {p.parent.name[:4] + p.stem: p for p in folder.glob("out put/*/predictions/*/*.json")}


def rows_in_journals(folder):
    found = 0
    for path in folder.glob("out put/*/predictions/slow*/**/*.journal"):
        with contextlib.suppress(FileNotFoundError):  # finished since it was found
            found += path.read_text().count("\n")
    return found


@pytest.mark.parametrize(
    # Each stage of --ray starts a cluster: one is enough.
    ("flag", "mode"),
    [("--slurm", "all"), ("--ray", "infer")],
)
def test_a_run_is_interrupted_and_gone_on_with(folder, flag, mode, request):
    if flag == "--slurm":
        slurm = request.getfixturevalue("slurm")
    else:
        pytest.importorskip("ray", reason='needs Ray: pip install "opencompass_ext[ray]"')
    process = start(folder, flag, "--max-num-workers", "2")
    end = time.monotonic() + 90
    while rows_in_journals(folder) < 4:
        assert time.monotonic() < end, finish(process, 130)
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes at once
    assert f"go on with -r {next(folder.glob('out put/*')).name}" in finish(process, 130)
    if flag == "--slurm":
        assert slurm("squeue", "--noheader") == ""
    assert set(predictions(folder)) < {"tinya", "tinyb", "slowa", "slowb"}

    output = finish(start(folder, flag, "-r", "-m", mode), 0)
    assert ("average_ppl" in output) == (mode == "all")
    found = {name: json.loads(path.read_text()) for name, path in predictions(folder).items()}
    assert set(found) == {"tinya", "tinyb", "slowa", "slowb"}
    assert {tuple(rows) for rows in found.values()} == {tuple(str(i) for i in range(ROWS))}
    assert [row["ppl"] for row in found["tinya"].values()] == pytest.approx(
        [row["ppl"] for row in found["tinyb"].values()]
    )
    assert not list(folder.glob("out put/*/queue/*"))
