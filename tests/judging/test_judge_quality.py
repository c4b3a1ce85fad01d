"""The script that measures a judge on claims that people have judged."""

import importlib.util
import json
from pathlib import Path

import pytest

from opencompass_ext.judging import Verdict

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "judge_quality", ROOT / "benchmarks" / "judge_quality.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verdicts(*answers):
    return [
        Verdict("u", yes, probability=p, reason=None if yes is not None else "judge_error")
        for yes, p in answers
    ]


ROWS = [
    {"grounded": label, "row": name} for label, name in ((1, "a"), (0, "a"), (1, "b"), (0, "c"))
]


def test_figures_worked_by_hand(script):
    found = script.quality(
        ROWS, verdicts((True, 0.9), (True, 0.8), (False, 0.4), (False, 0.1)), None
    )
    assert (found["accuracy"], found["majority"], found["says_yes"]) == (0.5, 0.5, 0.5)
    assert (found["mcc"], found["auc"]) == (0.0, 0.75)
    assert found["accuracy_ci95"][0] < 0.5 < found["accuracy_ci95"][1]


def test_unreadable_verdicts_count_as_neither(script):
    found = script.quality(
        ROWS, verdicts((True, 1.0), (None, None), (None, None), (False, 0.0)), "row"
    )
    assert found["unreadable"] == {"judge_error": 2}
    assert (found["n"], found["accuracy"], found["auc"]) == (4, 1.0, 1.0)
    nothing = script.quality(ROWS, verdicts(*[(None, None)] * 4), None)
    assert nothing["accuracy"] is nothing["auc"] is nothing["accuracy_ci95"] is None


def test_spread_of_repeated_runs(script):
    first, second = verdicts((True, None), (False, None)), verdicts((True, None), (True, None))
    found = script.spread([first, second], [1.0, 0.5])
    assert (found["changed_verdicts"], found["changed_share"]) == (1, 0.5)
    assert (found["accuracy_lowest"], found["accuracy_highest"]) == (0.5, 1.0)
    assert found["accuracy_sd"] == pytest.approx(0.125**0.5)


def test_it_measures_the_judge_of_a_config(script, tmp_path, capsys):
    config = tmp_path / "judge.py"
    config.write_text('"""A judge."""\njudge = dict(type="ScriptedJudge")\n')
    out = tmp_path / "quality.json"
    arguments = [str(config), "--limit", "20", "--repeats", "2", "--out", str(out)]
    assert script.main(arguments) == 0
    assert "begin_wow" in capsys.readouterr().out
    first, second = json.loads(out.read_text())
    assert (first["set"], second["set"]) == ("begin_wow", "expertqa_claims")
    assert first["n"] == second["n"] == 20
    assert first["spread"]["changed_verdicts"] == 0, "a judge that follows rules does not change"
    assert first["auc"] is None, "it gives no probabilities"
    assert first["usage"]["supported"]["judge"]["calls"] == 20


def test_a_config_without_a_judge_is_told(script, tmp_path, capsys):
    config = tmp_path / "models.py"
    config.write_text("models = []\n")
    assert script.main([str(config)]) == 2
    assert "has no 'judge'" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["nowhere/quality.json", "."])
def test_a_place_that_cannot_be_written_is_told_before_the_judge_is_asked(
    script, tmp_path, capsys, out
):
    with pytest.raises(SystemExit):
        script.main([str(tmp_path / "none.py"), "--out", str(tmp_path / out)])
    assert "must be a file in a folder that exists" in capsys.readouterr().err
