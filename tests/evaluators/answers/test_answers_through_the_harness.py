"""From a predictions file and a data file to results and report, with no model anywhere."""

import json

import pytest

from opencompass_ext.outputs import RunFolder
from opencompass_ext.records import TaskSpec
from opencompass_ext.summarizers import DefaultSummarizer
from opencompass_ext.tasks import ModelCache, OpenICLEvalTask
from opencompass_ext.writing import write_json

SYSTEMS = ("good", "bad")


@pytest.fixture
def dataset(tmp_path):
    """Write a file of questions and return the config of the data set."""
    rows = [
        {
            "id": f"q{number}",
            "question": f"Question {number}?",
            "category": "even" if number % 2 == 0 else "odd",
            "answers": [
                {"model": system, "answer": f"{system} answer " * (1 + number)}
                for system in (SYSTEMS if number % 2 else SYSTEMS[::-1])
            ],
            "human_preference": [{"better": "good", "worse": "bad"}],
            "ranks": {"good": 1, "bad": 2},
        }
        for number in range(6)
    ]
    path = tmp_path / "data" / "file.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return {
        "abbr": "d",
        "type": "PPLqaDataset",
        "path": str(path.parent),
        "name": "file",
        "reader_cfg": {"input_columns": ["question", "answer"], "output_column": None},
        "eval_cfg": {"evaluator": {"type": "PPLqaEvaluator", "resamples": 50}},
    }


@pytest.fixture
def evaluated(tmp_path, dataset, make):
    """Evaluate predictions in which the good answer has the lower pplqa; return the run folder."""
    folder = RunFolder(tmp_path / "20260101_000000")
    predictions = {}
    for number in range(6):
        for system in SYSTEMS if number % 2 else SYSTEMS[::-1]:
            h = 0.5 if system == "good" else 1.5 + 0.1 * number
            row = make.prediction(h_q=h, h_aq=h, h_a=0.1, id=f"q{number}", model=system)
            row["gptscore"] = make.likelihood(10.0 * h, 10)
            predictions[str(len(predictions))] = {"origin_prompt": "?", **row}
    write_json(folder.predictions("m", "d"), predictions)
    task = TaskSpec("OpenICLEvalTask", {"abbr": "m"}, (dataset,), str(folder.root))
    assert OpenICLEvalTask(task).run(lambda *_: None, ModelCache()) == "done"
    return folder


def test_results_are_those_of_the_known_answer(evaluated):
    results = json.loads(evaluated.results("m", "d").read_text(encoding="utf-8"))
    assert (results["accuracy"], results["mcc"]) == (1.0, 1.0)
    assert results["tau_b"] == pytest.approx(1.0)
    # "good answer " has one letter more than "bad answer ".
    assert results["longer_wins"] == 1.0
    assert [d["model"] for d in results["details"][:4]] == ["bad", "good", "good", "bad"]
    assert results["counts"]["scored_rows"] == 12


def test_the_report_is_made_of_them(evaluated, dataset, capsys):
    DefaultSummarizer().summarize(evaluated, [{"abbr": "m"}], [dataset], [])
    text = evaluated.report("pplqa", "d").read_text(encoding="utf-8")
    assert "pplqa does not beat the length baseline: difference in accuracy +0.000" in text
    assert "| 1 | good | 6 |" in text
    assert "gptscore ↑" in text
    assert "PPLqa: d, m" in capsys.readouterr().out


def test_evaluating_again_gives_the_same_file(evaluated, dataset):
    path = evaluated.results("m", "d")
    first = path.read_bytes()
    task = TaskSpec("OpenICLEvalTask", {"abbr": "m"}, (dataset,), str(evaluated.root))
    OpenICLEvalTask(task).run(lambda *_: None, ModelCache())
    assert path.read_bytes() == first
