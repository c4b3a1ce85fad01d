"""The shipped examples of THELMA run to their reports: against a server, and with small doubles."""

from pathlib import Path

import pytest
from chat_server import serve

from opencompass_ext.cli import main
from opencompass_ext.config import dump_config, load_config

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT = ["--limit", "3", "--debug"]


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out"


def report(out, name):
    (file,) = out.glob(f"*/summary/{name}.md")
    return file.read_text(encoding="utf-8")


def test_the_endpoint_example_judges_through_the_endpoint_of_the_environment(out, monkeypatch):
    with serve() as server:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_MODEL", "a-model")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden-from-all-files")
        assert main([str(EXAMPLES / "eval_thelma_endpoint.py"), "-w", str(out), *LIMIT]) == 0
        assert {body["model"] for body in server.bodies} == {"a-model"}
        assert set(server.authorizations) == {"Bearer sk-hidden-from-all-files"}
        asked = len(server.bodies)
        again = ["-m", "eval", "-r", "latest", "-w", str(out), *LIMIT]
        assert main([str(EXAMPLES / "eval_thelma_endpoint.py"), *again]) == 0
        assert len(server.bodies) == asked, "evaluating again asks nothing"
    assert "groundedness" in report(out, "thelma_thelma-begin_wow")
    for file in out.rglob("*.*"):
        assert b"sk-hidden" not in (file.read_bytes() if file.is_file() else b""), file


@pytest.mark.parametrize("missing", ["OPENAI_MODEL", "OPENAI_BASE_URL"])
def test_the_endpoint_example_names_the_variables_it_needs(out, monkeypatch, capsys, missing):
    monkeypatch.setenv("OPENAI_MODEL", "a-model")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv(missing)
    assert main([str(EXAMPLES / "eval_thelma_endpoint.py"), "-w", str(out), *LIMIT]) == 1
    told = "".join(capsys.readouterr())
    assert f"set the environment variable {missing}" in told
    assert "Traceback" not in told


def with_doubles(example, tmp_path):
    """The example with a judge and a scoring model that need no weights."""
    config = load_config(EXAMPLES / example)
    scripted = {"type": "ScriptedModel", "vocab_size": 2}

    def light(model):
        recorded = model["type"].endswith("RecordedModel")
        return model if recorded else {**scripted, "abbr": model["abbr"], "path": "any"}

    config["models"] = [light(model) for model in config["models"]]
    for group in config.get("model_dataset_combinations", []):
        group["models"] = [light(model) for model in group["models"]]
        group["datasets"] = [with_judge(dataset) for dataset in group["datasets"]]
    config["datasets"] = [with_judge(dataset) for dataset in config["datasets"]]
    dump_config(config, tmp_path / example)
    return str(tmp_path / example)


def with_judge(dataset):
    evaluator = dataset["eval_cfg"]["evaluator"]
    if "judge_cfg" in evaluator:
        evaluator["judge_cfg"] = {"type": "ScriptedJudge"}
    return dataset


def test_the_demo_example_reports_the_judge_and_source_support_side_by_side(out, tmp_path):
    assert main([with_doubles("eval_thelma.py", tmp_path), "-w", str(out), *LIMIT]) == 0
    told = report(out, "thelma_thelma-begin_wow")
    assert "Groundedness: judge and likelihood" in told
    assert "smollm2-135m-instruct" in told
    assert "Agreement with human labels" in report(out, "source_support_source-support-begin_wow")
