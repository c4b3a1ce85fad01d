"""The front page and the docs say what is so."""

import json
import re
import shlex
from pathlib import Path

import pytest

from opencompass_ext.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_section_on_data_sets_is_the_example_file():
    example = (ROOT / "examples" / "eval_your_own_data.py").read_text(encoding="utf-8")
    assert example.strip() in README


def test_both_install_commands_are_there_for_ci_to_run():
    lines = README.splitlines()
    assert (
        "pip install -c constraints.txt -e . && python run.py examples/eval_inference_ppl.py"
        in lines
    )
    assert 'pip install -c constraints.txt -e ".[test]" && pytest' in lines


@pytest.mark.parametrize("document", DOCS, ids=lambda path: path.name)
def test_links_lead_to_files(document):
    links = re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text(encoding="utf-8"))
    missing = [link for link in links if not (document.parent / link).exists()]
    assert missing == []


def commands_of_the_table():
    commands = re.findall(r"\| `python run\.py (.+?)` \|", README)
    assert len(commands) >= 5
    return [command.replace("CONFIG", "examples/eval_inference_ppl.py") for command in commands]


@pytest.mark.parametrize("command", commands_of_the_table())
def test_commands_of_the_readme_are_understood(command, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    arguments = shlex.split(command)
    if arguments[0] not in ("list", "validate"):
        if "-r" in arguments:
            (tmp_path / "20260101_000000").mkdir()
        arguments += ["--dry-run", "-w", str(tmp_path)]
    assert main(arguments) == 0, capsys.readouterr().err


def test_the_table_in_the_readme_has_the_columns_of_a_summary():
    header = next(line for line in README.splitlines() if line.startswith("dataset  "))
    assert header.split() == ["dataset", "version", "metric", "mode", "smollm2-135m-instruct"]


def test_the_config_for_own_data_in_the_docs_of_thelma_runs(monkeypatch, tmp_path, capsys):
    page = (ROOT / "docs" / "thelma.md").read_text(encoding="utf-8")
    section = page.partition("### Your own data")[2].partition("\n## ")[0]
    questions, log, config = re.findall(r"```(?:json|python)\n(.*?)```", section, re.DOTALL)
    (tmp_path / "questions.jsonl").write_text(questions, encoding="utf-8")
    (tmp_path / "log.jsonl").write_text(log, encoding="utf-8")
    demo = "from opencompass_ext.configs.judges.embedded_smollm2_135m import judge as _judge"
    assert demo in config
    # Its judge takes a minute: this one follows rules.
    (tmp_path / "rules.py").write_text('judge = dict(type="ScriptedJudge")\n')
    (tmp_path / "my_rag.py").write_text(config.replace(demo, "from .rules import judge as _judge"))
    monkeypatch.chdir(tmp_path)
    assert main(["my_rag.py", "--debug"]) == 0, capsys.readouterr().err
    (run,) = (tmp_path / "outputs" / "my_rag").iterdir()
    judged = json.loads((run / "results" / "my-rag" / "my-questions.json").read_text())
    assert judged["coverage"]["groundedness"]["n_scored"] == 2
    (measured,) = run.glob("results/smollm2*/my-log.json")
    assert 0 < json.loads(measured.read_text())["token_support"] <= 1
