"""Every file of ``examples/`` runs to its table, with the weights it names where these ship.

What is made smaller: rows, lengths of answers, and in one case the judge.
"""

import csv
import re
from pathlib import Path

import pytest

from opencompass_ext.cli import main
from opencompass_ext.config import dump_config, load_config

EXAMPLES = Path(__file__).parents[1] / "examples"
# Runs against a server of the tests, in tests/judging/test_thelma_examples.py.
ENDPOINT = "eval_thelma_" + "endpoint.py"
EMBEDDED = "embedded:smollm2-135m-instruct"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(example, *flags, change=lambda config: None):
    """Run an example after a change, and return the values of its table, by data set and metric."""
    config = load_config(EXAMPLES / example)
    change(config)
    dump_config(config, Path(example))
    assert main([example, "--debug", *flags]) == 0
    tables = sorted(Path(config["work_dir"]).glob("*/summary/*.csv"))
    if not tables:
        return {}
    text = tables[-1].read_text(encoding="utf-8")
    assert "no reason given" not in text
    header, *rows = csv.reader(text.splitlines())
    names, models = header[:4], header[4:]
    assert names == ["dataset", "version", "metric", "mode"]
    return {(row[0], row[2]): dict(zip(models, row[4:], strict=True)) for row in rows}


def value(cell):
    """The number of a cell of the table, without its interval."""
    return float(cell.split()[0])


def every(section, config):
    """The models or data sets of a config, wherever it names them."""
    groups = config.get("model_dataset_combinations", [])
    return [entry for part in (config, *groups) for entry in part[section]]


@pytest.mark.parametrize(
    ("example", "dataset"),
    [
        ("eval_inference_ppl.py", "inference-ppl-zh_gaokao_reasoning"),
        ("eval_your_own_data.py", "my-gsm8k"),
        ("eval_opencompass_config.py", "inference-ppl-en_gsm8k_reasoning"),
    ],
)
def test_inference_ppl(example, dataset):
    cell = run(example, "--limit", "2")[dataset, "average_ppl"]["smollm2-135m-instruct"]
    assert 0.1 < value(cell) < 5


def test_pplqa():
    table = run("eval_pplqa.py", "--limit", "1")
    assert value(table["pplqa-mtbench", "pplqa"]["smollm2-135m-instruct"]) > 0
    assert 0 <= value(table["pplqa-mtbench", "accuracy"]["smollm2-135m-instruct"]) <= 1


def test_pplqa_sanity():
    table = run("eval_pplqa_sanity.py", "--limit", "1")
    assert value(table["pplqa-sanity", "correct_best"]["smollm2-135m-instruct"]) in (0, 1)


def test_pplqa_with_a_larger_evaluator():
    def embedded(config):
        for model in config["models"]:
            model.update(path=EMBEDDED, model_kwargs={}, run_cfg={"num_gpus": 0})

    table = run("eval_pplqa_mistral.py", "--limit", "1", change=embedded)
    assert {dataset for dataset, _ in table} == {"pplqa-mtbench", "pplqa-sanity"}
    assert value(table["pplqa-mtbench", "pplqa"]["mistral-7b-instruct-v0.2"]) > 0


def test_pplqa_of_generated_answers():
    def short(config):
        for model in config["models"]:
            model["max_out_len"] = 2

    assert run("eval_pplqa_generate.py", "-m", "infer", change=short) == {}
    table = run("eval_pplqa_rank_generated.py")
    assert value(table["pplqa-generated", "pplqa"]["smollm2-135m-instruct"]) > 0


def test_thelma():
    table = run("eval_thelma.py", "--limit", "1")
    assert value(table["thelma-begin_wow", "groundedness"]["begin-systems"]) in (0, 1)
    support = table["source-support-begin_wow", "source_support"]["smollm2-135m-instruct"]
    assert -1 < value(support) < 1


def test_thelma_of_a_live_model_and_the_source_support_of_its_answers():
    def light(config):
        for model in every("models", config):
            model["max_out_len"] = 4
        for dataset in every("datasets", config):
            evaluator = dataset["eval_cfg"]["evaluator"]
            if "judge_cfg" in evaluator:
                evaluator["judge_cfg"] = {"type": "ScriptedJudge"}

    first = run("eval_thelma_live_model.py", change=light)
    assert 0 <= value(first["thelma-expertqa", "groundedness"]["smollm2-135m-chat"]) <= 1
    table = run("eval_thelma_live_support.py", "-r", change=light)
    assert (
        first.items()
        <= {k: {"smollm2-135m-chat": v["smollm2-135m-chat"]} for k, v in table.items()}.items()
    )
    support = table["source-support-expertqa", "source_support"]["smollm2-135m-instruct"]
    assert -1 < value(support) < 1
    (report,) = Path("outputs/thelma_live_model").glob("*/summary/thelma_*.md")
    assert "Groundedness: judge and likelihood" in report.read_text(encoding="utf-8")


def test_every_example_is_run():
    run_here = set(re.findall(r"eval_\w+\.py", Path(__file__).read_text(encoding="utf-8")))
    assert {path.name for path in EXAMPLES.glob("*.py")} - run_here == {ENDPOINT}
