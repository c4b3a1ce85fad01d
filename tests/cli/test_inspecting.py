import pytest

from opencompass_ext.cli import main


def test_list_names_configs_with_the_first_line_of_their_docstring(write, capsys):
    write("cfgs/models/a/tiny.py", '"""A tiny model.\n\nMore.\n"""\nmodels = []')
    write("cfgs/models/plain.py", "models = []")
    write("cfgs/models/broken.py", "models = [")
    assert main(["list", "models", "--config-dir", "cfgs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "models"
    summaries = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert summaries["tiny"] == ["A", "tiny", "model."]
    assert summaries["plain"] == []
    assert summaries["broken"] == ["(cannot", "be", "read)"]


def test_list_types_names_every_registry(capsys):
    assert main(["list", "types"]) == 0
    out = capsys.readouterr().out
    for name in ("ScriptedModel", "JsonlDataset", "ZeroRetriever", "LocalRunner"):
        assert f"  {name} " in out


def test_list_without_a_kind_shows_all(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [x for x in lines if not x.startswith(" ")][:5] == [
        "models",
        "datasets",
        "judges",
        "summarizers",
        "model types",
    ]


def test_list_of_an_unknown_kind_is_told(capsys):
    assert main(["list", "model"]) == 2
    assert "list knows no 'model': did you mean 'models'" in capsys.readouterr().err


def test_validate_says_what_a_config_holds(config_file, capsys):
    assert main(["validate", "eval_demo.py"]) == 0
    assert capsys.readouterr().out == "eval_demo.py: ok (models: 1, datasets: 1)\n"


def test_validate_checks_parts_of_configs(write, capsys):
    write("part.py", "models = [dict(type='ScriptedModel')]\nsummarizer = dict()")
    assert main(["validate", "part.py"]) == 0
    told = "part.py: ok (part of a config; models: 1, a summarizer)\n"
    assert capsys.readouterr().out == told


def test_validate_goes_on_after_a_bad_config(config_file, write, capsys):
    write("bad.py", "models = [dict(type='ScriptedModel', vocabsize=2)]")
    write("empty.py", "x = 1")
    assert main(["validate", "bad.py", "nowhere.py", "empty.py", "eval_demo.py"]) == 2
    out, err = capsys.readouterr()
    assert out == "eval_demo.py: ok (models: 1, datasets: 1)\n"
    assert [line.split(": ")[1] for line in err.splitlines()] == [
        "bad.py:1",
        "no config file " + str(config_file.parent / "nowhere.py"),
        "empty.py",
    ]


def test_validate_can_be_lenient(write, capsys):
    write("bad.py", "models = [dict(type='ScriptedModel', vocabsize=2)]")
    assert main(["validate", "bad.py", "--no-strict"]) == 0
    assert "warning: bad.py:1: models[0].vocabsize: unknown key" in capsys.readouterr().err


@pytest.mark.parametrize("section", ["models", "datasets"])
def test_validate_and_run_refuse_a_section_without_a_value(config_file, write, capsys, section):
    write("none.py", config_file.read_text() + f"\n{section} = None\n")
    for argv in (["validate", "none.py"], ["none.py"], ["none.py", "--no-strict"]):
        assert main(argv) == 2
        assert f"{section}: must be a list of dicts, got None" in capsys.readouterr().err


def test_validate_and_run_take_a_stage_without_a_value_for_none(config_file, write):
    write("none.py", config_file.read_text() + "\ninfer = None\n")
    assert main(["validate", "none.py"]) == 0
    assert main(["none.py", "--dry-run"]) == 0


def test_validate_tells_a_misspelt_section_like_a_run(config_file, write, capsys):
    write("odd.py", config_file.read_text().replace("models =", "model ="))
    for argv in (["validate", "odd.py"], ["odd.py"]):
        assert main(argv) == 2
        assert "odd.py:2: model: unknown key, did you mean 'models'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["list", "validate"])
def test_each_command_has_its_own_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"run.py {command}" in capsys.readouterr().out
