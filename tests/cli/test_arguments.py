from pathlib import Path

import pytest

from opencompass_ext.catalog import find_datasets, find_models
from opencompass_ext.cli.arguments import parse_run_arguments
from opencompass_ext.config import packaged_configs
from opencompass_ext.errors import ConfigError


def test_reuse_without_a_time_is_the_latest():
    assert parse_run_arguments(["c.py", "-r"]).reuse == "latest"
    assert parse_run_arguments(["-r", "20260131_120000", "c.py"]).reuse == "20260131_120000"
    assert parse_run_arguments(["c.py"]).reuse is None


@pytest.mark.parametrize("mode", ["eval", "viz"])
def test_modes_that_need_predictions_need_reuse(mode):
    with pytest.raises(ConfigError, match=rf"-m {mode} works on predictions that are there.*-r"):
        parse_run_arguments(["c.py", "-m", mode])
    assert parse_run_arguments(["c.py", "-m", mode, "-r"]).mode == mode


def test_a_config_taken_for_a_time_is_told():
    with pytest.raises(ConfigError, match=r"-r took 'c\.py' for the time stamp"):
        parse_run_arguments(["-r", "c.py"])


@pytest.mark.parametrize(
    ("argument", "pair"),
    [
        ("n=2", ("n", 2)),
        ("flag=True", ("flag", True)),
        ("name=bfloat16", ("name", "bfloat16")),
        ("quoted='2'", ("quoted", "2")),
        ("sizes=[1, 2]", ("sizes", [1, 2])),
        ("url=a=b", ("url", "a=b")),
        ("empty=", ("empty", "")),
    ],
)
def test_key_value_pairs_are_literals_or_else_text(argument, pair):
    assert parse_run_arguments(["--model-kwargs", argument]).model_kwargs == [pair]


@pytest.mark.parametrize("argument", ["n", "=2", "a b=2"])
def test_what_is_no_pair_is_refused(argument):
    with pytest.raises(ConfigError, match=r"--model-kwargs: must have the form KEY=VALUE"):
        parse_run_arguments(["--model-kwargs", argument])


@pytest.mark.parametrize("flag", ["--limit", "--batch-size", "--max-num-workers"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("0", "at least 1, got 0"),
        ("-3", "at least 1, got -3"),
        ("x", "a whole number, got 'x'"),
        ("--3", "a whole number, got '--3'"),
        ("1.5", r"a whole number, got '1\.5'"),
    ],
)
def test_counts_are_above_zero(flag, value, told):
    with pytest.raises(ConfigError, match=rf"{flag}: must be {told}.*--help"):
        parse_run_arguments([f"{flag}={value}"])


def test_a_negative_number_is_no_flag():
    with pytest.raises(ConfigError, match=r"--limit: must be at least 1, got -3"):
        parse_run_arguments(["c.py", "--limit", "-3"])
    with pytest.raises(ConfigError, match=r"--hf-num-gpus: must be at least 0, got -1"):
        parse_run_arguments(["--hf-num-gpus", "-1"])


def test_the_examples_of_the_help_name_what_there_is(capsys):
    with pytest.raises(SystemExit):
        parse_run_arguments(["--help"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    examples = [words[1:] for words in lines if words[:1] == ["run.py"]]
    assert len(examples) == 3
    by_file, by_name = (parse_run_arguments(words) for words in examples[:2])
    assert (Path(__file__).parents[2] / by_file.config).is_file()
    folders = [packaged_configs()]
    assert [find_models(name, folders) for name in by_name.models]
    assert [find_datasets(name, folders) for name in by_name.datasets]


def test_an_unknown_flag_is_answered_with_near_names():
    with pytest.raises(ConfigError, match=r"unknown flag --modle: did you mean .*'--models'"):
        parse_run_arguments(["--modle", "x"])


def test_flags_are_not_abbreviated():
    with pytest.raises(ConfigError, match=r"unknown flag --max-num"):
        parse_run_arguments(["--max-num", "2"])


def test_a_second_config_is_told():
    with pytest.raises(ConfigError, match=r"one config file at a time, got also b\.py"):
        parse_run_arguments(["a.py", "b.py"])
