import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from opencompass_ext.outputs import RunFolder
from opencompass_ext.predictions.file import PredictionsFile


def test_a_dry_run_shows_all_stages_and_writes_nothing(shop):
    models = [shop.model("m1"), shop.model("m2", run_cfg={"num_gpus": 0})]
    config = shop.config(models, [shop.dataset("a"), shop.dataset("b")], max_num_workers=3)
    before = sorted(os.listdir(shop.folder))
    code, output = shop.run(config, dry_run=True, workers=True)
    assert code == 0
    assert sorted(os.listdir(shop.folder)) == before
    for stage in ("Infer", "Eval"):
        for pair in ("m1/a", "m1/b", "m2/a", "m2/b"):
            assert f"OpenICL{stage}[{pair}], model {pair[:2]}, GPUs: 0" in output
    assert "by LocalRunner, 3 at a time" in output
    assert "nothing was run or written" in output


def test_a_dry_run_shows_what_is_there_already(shop):
    datasets = [shop.dataset("a"), shop.dataset("b")]
    assert shop.run(shop.config([shop.model(fail_on="row 5 of b")], datasets))[0] == 1
    before = {p: p.stat().st_mtime_ns for p in shop.folder.rglob("*")}
    code, output = shop.run(shop.config([shop.model()], datasets), dry_run=True, reuse="latest")
    assert code == 0
    infer, evaluation = output.split("\neval:")
    assert "dataset a: predictions exist" in infer
    assert "dataset b: unfinished, 4 rows kept" in infer
    assert "dataset a: results exist and are made anew" in evaluation
    assert "dataset b: new" in evaluation
    assert {p: p.stat().st_mtime_ns for p in shop.folder.rglob("*")} == before


def test_a_dry_run_shows_size_and_command_of_every_task(shop, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-5d5b")
    datasets = [shop.dataset("a", rows=40), {**shop.dataset("b"), "path": "gone.jsonl"}]
    models = [shop.model("m1", run_cfg={"num_gpus": 1}), shop.model("m2")]
    config = shop.config(models, datasets)
    config["infer"]["partitioner"] = {"type": "NumWorkerPartitioner", "num_worker": 2}
    code, output = shop.run(config, dry_run=True, workers=True)
    assert code == 0
    tokens = Path(datasets[0]["path"]).stat().st_size // 4 // 2
    assert f"OpenICLInfer[m1/a[20:40]], model m1, GPUs: 1, 20 rows, about {tokens} tokens" in output
    assert "command: CUDA_VISIBLE_DEVICES=<1 of 2,GPU-5d5b> " in output
    assert "command: CUDA_VISIBLE_DEVICES= " in output
    assert output.count("-m opencompass_ext.tasks.worker") == output.count("command:") == 8
    assert "OpenICLEval[m2/a], model m2, GPUs: 0, 40 rows\n" in output
    assert "dataset b: new; its size cannot be told: no data file gone.jsonl" in output
    assert sorted(os.listdir(shop.folder)) == ["a.jsonl", "b.jsonl"]


def test_a_dry_run_counts_the_rows_that_parts_have_kept(shop):
    config = shop.config([shop.model(fail_on="row 17 of")], [shop.dataset("a", rows=40)])
    config["infer"]["partitioner"] = {"type": "NumWorkerPartitioner", "num_worker": 2}
    assert shop.run(config, mode="infer")[0] == 1
    _, output = shop.run(config, dry_run=True, reuse="latest")
    assert "dataset a[0:20]: unfinished, 16 rows kept" in output
    assert "dataset a[20:40]: unfinished, 20 rows kept" in output


def test_a_dry_run_counts_no_row_of_which_there_are_but_parts(shop):
    config = shop.config([shop.model()], [shop.dataset("a")])
    path = RunFolder(shop.out / "20260101_120000").predictions("m", "a")
    with PredictionsFile(path, ["k"] * 12) as predictions:
        predictions.append({0: {"ppl": 1.0}}, {1: {"q": {}}, 2: {"q": {}}})
        predictions.append({}, {1: {"a": {}}})
    _, output = shop.run(config, dry_run=True, reuse="latest")
    assert "dataset a: unfinished, 1 row kept" in output


def test_a_dry_run_of_one_stage_shows_that_stage(shop):
    config = shop.config([shop.model()], [shop.dataset("a")])
    _, output = shop.run(config, dry_run=True, mode="infer")
    assert "Eval" not in output
    assert "summary" not in output


def test_a_dry_run_finds_missing_gpus(shop, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    config = shop.config([shop.model(run_cfg={"num_gpus": 2})], [shop.dataset("a")])
    code, output = shop.run(config, dry_run=True)
    assert code == 2
    assert "GPUs: 2" in output
    assert "asks for 2 GPUs" in output


def test_planning_imports_nothing_heavy(shop):
    code = textwrap.dedent("""
        import sys
        from opencompass_ext.outputs import RunFolder
        from opencompass_ext.running.plan import describe, plan_stage
        import opencompass_ext.running
        config = {
            "models": [{"type": "ScriptedModel", "abbr": "m"}],
            "datasets": [{"type": "InferencePPLDataset", "abbr": "d", "path": "nowhere"}],
        }
        folder = RunFolder("x")
        print(describe([plan_stage(config, s, folder) for s in ("infer", "eval")], folder,
                       with_summary=True))
        heavy = {"torch", "transformers", "datasets", "scipy"} & set(sys.modules)
        sys.exit(f"imported {heavy}" if heavy else 0)
    """)
    reply = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=os.getcwd()
    )
    assert reply.returncode == 0, reply.stderr
    assert "OpenICLEval[m/d]" in reply.stdout


def test_the_config_chooses_runner_partitioner_and_task(shop):
    config = shop.config([shop.model()], [shop.dataset("a"), shop.dataset("b")])
    config["infer"] = {
        "partitioner": {"type": "opencompass.partitioners.NaivePartitioner", "n": 2},
        "runner": {
            "type": "opencompass.runners.LocalRunner",
            "task": {"type": "opencompass.tasks.OpenICLInferTask"},
        },
    }
    config["eval"]["runner"]["task"] = {"type": "OpenICLEvalTask", "dump_details": False}
    code, output = shop.run(config, dry_run=True)
    assert code == 0
    assert "OpenICLInfer[m/a,m/b]" in output
    assert shop.run(config)[0] == 0
    assert "details" not in json.loads(shop.file("results", "m", "a").read_text())


def test_an_unknown_name_is_one_error_before_anything(shop):
    config = shop.config([shop.model()], [shop.dataset("a")])
    config["infer"]["runner"]["type"] = "LocalRuner"
    code, output = shop.run(config)
    assert code == 2
    assert "did you mean 'LocalRunner'" in output
    assert not shop.out.exists()
