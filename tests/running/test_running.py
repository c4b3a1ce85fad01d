import csv
import json
import math
import os
import re
from pathlib import Path

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.outputs import RunFolder
from opencompass_ext.predictions import lock as predictions_lock
from opencompass_ext.predictions.file import PredictionsFile
from opencompass_ext.running.run import execute


def names_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_a_whole_run_makes_opencompass_files(shop):
    config = shop.config(
        [shop.model("m1"), shop.model("m2", vocab_size=4)],
        [shop.dataset("a"), shop.dataset("b")],
        max_num_workers=2,
    )
    code, output = shop.run(config, workers=True)
    assert code == 0, output
    files = {n for n in names_below(shop.root) if (shop.root / n).is_file()}
    dump = {n for n in files if n.startswith("configs/")}
    assert len(dump) == 1
    assert (shop.root / dump.pop()).read_text() == "# the config\n"
    pairs = [f"{m}/{d}" for m in ("m1", "m2") for d in ("a", "b")]
    assert files - {n for n in files if n.startswith("configs/")} == {
        "status.json",
        "summary/summary_test.json",
        *(f"predictions/{pair}.json" for pair in pairs),
        *(f"predictions/{pair}.provenance" for pair in pairs),
        *(f"results/{pair}.json" for pair in pairs),
        *(f"logs/{stage}/{pair}.out" for stage in ("infer", "eval") for pair in pairs),
    }
    assert shop.summary == {"models": ["m1", "m2"], "datasets": ["a", "b"], "failures": []}
    result = json.loads(shop.file("results", "m2", "a").read_text())
    assert result["average_ppl"] == pytest.approx(math.log(4))
    assert len(result["details"]) == 12
    assert result["provenance"]["model"]["identity"]["vocab_size"] == 4
    assert "OpenICLInfer[m1/a] done" in shop.file("logs/infer", "m1", "a", ".out").read_text()


def test_one_bad_dataset_of_three_fails_alone(shop):
    bad = shop.dataset("bad") | {"path": str(shop.folder / "absent.jsonl")}
    config = shop.config([shop.model()], [shop.dataset("a"), bad, shop.dataset("c")])
    code, output = shop.run(config, workers=True)
    assert code == 1
    assert shop.file("results", "m", "a").exists()
    assert shop.file("results", "m", "c").exists()
    assert not shop.file("results", "m", "bad").exists()
    ((name, error, log),) = shop.summary["failures"]
    assert name == "OpenICLInfer[m/bad]"
    assert "absent.jsonl" in error
    assert output.index("SUMMARY") < output.index("1 failed:")
    tail = output[output.index("1 failed:") :]
    assert name in tail
    assert error in tail
    assert log in tail
    text = (shop.folder / log).read_text()
    assert "absent.jsonl" in text
    assert "Traceback" not in text + output


def test_a_bug_keeps_its_traceback_in_the_log_and_off_the_terminal(shop):
    # ScriptedModel compares the marker with a text: a number is a bug of whoever wrote this.
    config = shop.config([shop.model(fail_on=3)], [shop.dataset("a"), shop.dataset("b")])
    code, output = shop.run(config, workers=True)
    assert code == 1
    assert "Traceback" not in output
    assert [error for _, error, _ in shop.summary["failures"]] == [
        "TypeError: 'in <string>' requires string as left operand, not int"
    ] * 2
    assert "Traceback" in shop.file("logs/infer", "m", "a", ".out").read_text()


def test_fail_fast_starts_nothing_more(shop):
    datasets = [shop.dataset(name) for name in ("a", "bad", "c", "d")]
    code, output = shop.run(
        shop.config([shop.model(fail_on="of bad")], datasets), fail_fast=True, workers=True
    )
    assert code == 1
    assert "3 tasks were not started after a failure" in output
    assert sorted(os.listdir(shop.root / "logs" / "infer" / "m")) == ["a.out", "bad.out"]
    assert not (shop.root / "results").exists()
    names = [name for name, _, _ in shop.summary["failures"]]
    assert names == [
        "OpenICLInfer[m/bad]",
        "OpenICLInfer[m/c]",
        "OpenICLInfer[m/d]",
        "OpenICLEval[m/a]",
    ]


def test_debug_runs_here_and_its_failures_count(shop):
    config = shop.config([shop.model(fail_on="of bad")], [shop.dataset("bad"), shop.dataset("b")])
    code, output = shop.run(config)
    assert code == 1
    assert "scripted failure" in output
    assert shop.file("results", "m", "b").exists()
    assert not (shop.root / "logs").exists()
    code, output = shop.run(shop.config([shop.model(fail_on=3)], [shop.dataset("a")]), mode="infer")
    assert code == 1
    assert "Traceback" in output


def test_eval_again_uses_predictions_and_makes_results_anew(shop):
    config = shop.config([shop.model()], [shop.dataset("a")])
    assert shop.run(config, mode="infer")[0] == 0
    assert not (shop.root / "results").exists()
    path = shop.file("predictions", "m", "a")
    before = path.stat().st_mtime_ns
    assert shop.run(config, mode="eval", reuse="latest")[0] == 0
    first = shop.file("results", "m", "a").read_bytes()
    shop.file("results", "m", "a").write_text('{"average_ppl": 99}')
    assert shop.run(config, mode="eval", reuse=shop.root.name)[0] == 0
    assert shop.file("results", "m", "a").read_bytes() == first
    assert path.stat().st_mtime_ns == before
    assert len(list(shop.out.iterdir())) == 1


def test_predictions_made_by_opencompass_are_evaluated(shop):
    config = shop.config([shop.model()], [shop.dataset("a")])
    assert shop.run(config, mode="infer")[0] == 0
    rows = {
        "0": {"origin_prompt": "x", "ppl": 2.0, "token_len": 4},
        "1": {"ppl": 9.0, "token_len": 2},
    }
    shop.file("predictions", "m", "a").write_text(json.dumps(rows, indent=4))
    shop.file("predictions", "m", "a", ".provenance").unlink()
    assert shop.run(config, mode="eval", reuse="latest")[0] == 0
    result = json.loads(shop.file("results", "m", "a").read_text())
    assert result["average_ppl"] == pytest.approx(11 / 6)


def test_eval_without_predictions_says_what_to_do(shop):
    config = shop.config([shop.model()], [shop.dataset("a"), shop.dataset("b")])
    assert shop.run(config, mode="infer")[0] == 0
    shop.file("predictions", "m", "b").unlink()
    code, output = shop.run(config, mode="eval", reuse="latest")
    assert code == 1
    assert "b.json: run inference first" in output
    assert shop.file("results", "m", "a").exists()


def test_viz_only_summarizes(shop):
    config = shop.config([shop.model()], [shop.dataset("a")])
    assert shop.run(config)[0] == 0
    before = names_below(shop.root)
    (shop.root / "summary" / "summary_test.json").unlink()
    assert shop.run(config, mode="viz", reuse="latest")[0] == 0
    assert {n for n in names_below(shop.root) if not n.startswith("configs")} == {
        n for n in before if not n.startswith("configs")
    }


def test_a_second_run_with_reuse_scores_nothing(shop):
    # The second time the model would fail on any text at all.
    datasets = [shop.dataset("a"), shop.dataset("b")]
    assert shop.run(shop.config([shop.model()], datasets))[0] == 0
    code, output = shop.run(shop.config([shop.model(fail_on="row")], datasets), reuse="latest")
    assert code == 0, output
    assert "infer: 2 reused" in output


def test_data_that_grew_is_scored_where_it_is_new(shop):
    dataset = shop.dataset("a", rows=6)
    assert shop.run(shop.config([shop.model()], [dataset]))[0] == 0
    shop.data("a", rows=10)
    code, output = shop.run(
        shop.config([shop.model(fail_on="row 3 of")], [dataset]), reuse="latest"
    )
    assert code == 0, output
    assert len(json.loads(shop.file("predictions", "m", "a").read_text())) == 10
    assert len(json.loads(shop.file("results", "m", "a").read_text())["details"]) == 10


def test_an_edited_row_and_a_changed_model_are_scored_again(shop):
    dataset = shop.dataset("a", rows=["aaa", "bbb", "ccc"])
    assert shop.run(shop.config([shop.model()], [dataset]))[0] == 0
    shop.data("a", rows=["aaa", "edited", "ccc"])
    only_b = shop.config([shop.model(fail_on="ccc")], [dataset])
    assert shop.run(only_b, reuse="latest")[0] == 0
    rows = json.loads(shop.file("predictions", "m", "a").read_text())
    assert [rows[i]["origin_prompt"] for i in "012"] == ["aaa", "edited", "ccc"]
    changed = shop.config([shop.model(vocab_size=4)], [dataset])
    assert shop.run(changed, reuse="latest")[0] == 0
    result = json.loads(shop.file("results", "m", "a").read_text())
    assert result["average_ppl"] == pytest.approx(math.log(4))


def test_two_runs_at_once_get_two_folders(shop):
    config = shop.config([shop.model()], [shop.dataset("a")])
    runs = [shop.start(config) for _ in range(2)]
    for run in runs:
        run.communicate(timeout=120)
        assert run.returncode == 0
    assert len(list(shop.out.iterdir())) == 2
    for folder in shop.out.iterdir():
        assert (folder / "results" / "m" / "a.json").exists()


def test_two_runs_in_one_folder_do_not_mix(shop, monkeypatch):
    monkeypatch.setattr(predictions_lock, "IDLE_SECONDS", 0.1)
    config = shop.config([shop.model()], [shop.dataset("a")])
    (shop.out / "20260101_000000").mkdir(parents=True)
    path = RunFolder(shop.root).predictions("m", "a")
    with PredictionsFile(path, ["key"]) as other:
        other.append({0: {"ppl": 1.0}})
        code, output = shop.run(config, reuse="latest")
        assert code == 1
        assert "another process is writing" in output
        assert other.rows == {0: {"ppl": 1.0}}
    assert shop.run(config, reuse="latest")[0] == 0


def test_a_failing_summary_is_a_failure_of_the_run(shop):
    config = shop.config([shop.model()], [shop.dataset("a")])
    config["summarizer"]["type"] = "run_fakes.FailingSummarizer"
    code, output = shop.run(config)
    assert code == 1
    assert "summary: no table today" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("mode", ["eval", "viz"])
def test_eval_and_viz_need_an_earlier_run(shop, mode):
    with pytest.raises(ConfigError, match="say which with -r"):
        execute({}, config_text="", mode=mode)


def test_more_gpus_than_there_are_is_one_error_before_anything(shop, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5d5b")
    models = [shop.model("small"), shop.model("big", run_cfg={"num_gpus": 4})]
    config = shop.config(models, [shop.dataset("a")])
    code, output = shop.run(config)
    assert code == 2
    assert "OpenICLInfer[big/a] asks for 4 GPUs" in output
    assert "offers 1" in output
    assert not shop.out.exists()


def test_equal_abbrs_are_refused_before_anything(shop):
    config = shop.config([shop.model()], [shop.dataset("a"), shop.dataset("a")])
    with pytest.raises(ConfigError, match="'m' meets dataset 'a' twice"):
        execute(config, config_text="")
    assert not shop.out.exists()


def test_a_config_without_models_or_datasets(shop):
    with pytest.raises(ConfigError, match="1 models and 0 datasets"):
        execute(shop.config([shop.model()], []), config_text="")


NAMES = ["a/b", "a:b", "a b", "'q\"", "中文数据", "x" * 300, "..", "Data", "data", "/abs"]


def test_hostile_names_of_datasets_and_models(shop):
    datasets = [shop.dataset(f"d{i}") | {"abbr": name} for i, name in enumerate(NAMES)]
    config = shop.config([shop.model("../org/model:v1"), shop.model("..")], datasets)
    code, output = shop.run(config, workers=True)
    assert code == 0, output
    assert sorted(os.listdir(shop.out)) == [shop.root.name]
    folders = ["configs", "logs", "predictions", "results", "status.json", "summary"]
    assert sorted(os.listdir(shop.root)) == folders
    for kind in ("predictions", "results"):
        assert len(os.listdir(shop.root / kind)) == 2
        assert len(list((shop.root / kind).glob("*/*.json"))) == 2 * len(NAMES)
    contents = {p.read_bytes() for p in (shop.root / "predictions").glob("*/*.json")}
    assert len(contents) == len(NAMES)


def test_a_folder_with_blanks_and_quotes(tmp_path, shop):
    shop.folder = tmp_path / "my 'own' $HOME folder"
    shop.folder.mkdir()
    shop.out = shop.folder / "out put"
    code, output = shop.run(shop.config([shop.model()], [shop.dataset("a")]), workers=True)
    assert code == 0, output


def test_a_file_in_the_current_folder_cannot_break_the_workers(shop):
    for name in ("random.py", "logging.py"):
        (shop.folder / name).write_text("raise SystemExit('not this one')")
    process = shop.start(shop.config([shop.model()], [shop.dataset("a")]))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output


def test_a_work_dir_that_cannot_be_written(shop):
    (shop.folder / "file").write_text("")
    config = shop.config([shop.model()], [shop.dataset("a")])
    config["work_dir"] = str(shop.folder / "file" / "out")
    code, output = shop.run(config)
    assert code == 2
    assert "choose another with -w" in output
    assert "Traceback" not in output


def test_limits_and_defaults_of_the_model_reach_the_inferencer(shop):
    config = shop.config([shop.model(max_out_len=7, batch_size=5)], [shop.dataset("a", limit=3)])
    assert shop.run(config)[0] == 0
    assert len(json.loads(shop.file("predictions", "m", "a").read_text())) == 3


def test_the_real_classes_from_data_to_table(shop):
    def dataset(name):
        return shop.dataset(name) | {
            "type": "InferencePPLDataset",
            "reader_cfg": {"input_columns": ["text", "label"], "output_column": None},
            "eval_cfg": {"evaluator": {"type": "AverageInferencePPLEvaluator"}},
        }

    bad = dataset("bad")
    (shop.folder / "bad.jsonl").write_text('{"text": "ab", "label": [[0, 3, 1]]}\n')
    models = [shop.model(), shop.model("m4", vocab_size=4)]
    config = shop.config(models, [dataset("a"), bad, dataset("c")], max_num_workers=2)
    config["summarizer"] = {"type": "DefaultSummarizer"}
    code, output = shop.run(config, workers=True)
    assert code == 1
    assert "bad.jsonl, line 1: span [0, 3, 1]: outside the text" in output
    (table,) = (shop.root / "summary").glob("*.csv")
    cells = {}
    for row in csv.DictReader(table.read_text().splitlines()):
        cells[row["dataset"], row["metric"]] = (row["m"], row["m4"])
    assert cells["bad", "-"] == ("FAILED", "FAILED")
    for name in "ac":
        assert [float(x) for x in cells[name, "perplexity"]] == pytest.approx([2, 4])
        assert [float(x) for x in cells[name, "bits_per_byte"]] == pytest.approx([1, 2])


def test_status_json_tells_how_the_run_ended(shop):
    config = shop.config([shop.model(fail_on="of b")], [shop.dataset("a"), shop.dataset("b")])
    assert shop.run(config, workers=True)[0] == 1
    status = json.loads((shop.root / "status.json").read_text())
    assert (status["state"], status["stage"]) == ("failed", "eval")
    assert status["tasks_ended"] == {"done": 1}
    ((task, log),) = [(f["task"], f["log"]) for f in status["failures"]]
    assert task == "OpenICLInfer[m/b]"
    assert log.endswith("b.out")
    assert shop.run(shop.config([shop.model()], [shop.dataset("a")]), reuse="latest")[0] == 0
    status = json.loads((shop.root / "status.json").read_text())
    assert (status["state"], status["failures"]) == ("done", [])


def test_predictions_are_not_evaluated_against_rows_that_changed_since(shop):
    dataset = shop.dataset("a", ["aaa", "bbb", "ccc"])
    dataset["eval_cfg"] = {"evaluator": {"type": "run_fakes.TestSetEvaluator"}}
    config = shop.config([shop.model()], [dataset])
    assert shop.run(config)[0] == 0
    path = Path(dataset["path"])
    # Not what the model reads, but what the evaluator may look at.
    path.write_text(path.read_text().replace('"bbb", "label": [[0, 3, 1]]', '"bbb", "label": []'))
    code, output = shop.run(config, mode="eval", reuse="latest")
    assert code == 1
    assert "row 1 of dataset 'a' is not the row that" in output
    assert "Run inference again (-m infer -r), which does the changed rows only" in output
    code, output = shop.run(config, reuse="latest")
    assert code == 0, output
    assert shop.run(config, mode="eval", reuse="latest")[0] == 0


def test_a_wrong_path_of_one_model_of_three(shop):
    """Three models on four sets: eight good cells, one failure told, and only it is left to do."""
    datasets = [shop.dataset(name) for name in "abcd"]
    wrong = {"type": "HuggingFaceBaseModel", "abbr": "m3", "path": str(shop.folder / "gone")}
    good = [shop.model("m1"), shop.model("m2", vocab_size=4)]
    code, output = shop.run(shop.config([*good, wrong], datasets, max_num_workers=2), workers=True)
    assert code == 1
    results = {str(p.relative_to(shop.root)) for p in shop.root.glob("results/*/*.json")}
    assert results == {f"results/{m}/{d}.json" for m in ("m1", "m2") for d in "abcd"}
    tail = output[output.index("4 failed:") :]
    assert output[: output.index("SUMMARY")].count("there is no model at") == 1
    assert tail.count("there is no model at") == 1
    assert "and alike OpenICLInfer[m3/b], OpenICLInfer[m3/c], OpenICLInfer[m3/d]" in tail
    log = re.search(r"log: (.*)", tail)[1]
    assert "gone" in Path(log).read_text()
    assert "cannot be loaded, so these fail too" in output[: output.index("4 failed:")]
    scored = shop.folder / "scored"
    mended = shop.model("m3", type="run_fakes.LoggedModel", scored_log=str(scored))
    unable = [{**model, "fail_on": "row"} for model in good]
    code, output = shop.run(
        shop.config([*unable, mended], datasets, max_num_workers=2), reuse="latest", workers=True
    )
    assert code == 0, output
    assert "infer: 8 reused, 4 done" in output or "infer: 4 done, 8 reused" in output
    assert len(scored.read_text().split()) == 4 * 12
