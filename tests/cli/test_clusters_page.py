"""What docs/clusters.md promises."""

import re
import shlex
from pathlib import Path

import pytest

from opencompass_ext.cli.arguments import parse_run_arguments
from opencompass_ext.cli.cluster import with_cluster_flags
from opencompass_ext.registry import RUNNERS
from opencompass_ext.schema.dicts import check_component
from opencompass_ext.schema.keys import RUNNER

PAGE = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", re.findall(r"`python run\.py (.+?)`", PAGE))
def test_its_commands_lead_to_a_runner(command):
    args = parse_run_arguments(shlex.split(command.replace("CONFIG", "eval.py")))
    runner = RUNNERS.build(with_cluster_flags({"type": "LocalRunner"}, args))
    assert type(runner).__name__ in ("SlurmRunner", "RayRunner")
    assert (runner.max_num_workers, runner.retry) == (32, 2)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL))
def test_its_configs_are_taken(code):
    config = {}
    exec(code, config)
    runner = config["infer"]["runner"]
    assert list(check_component(runner, RUNNERS, "infer.runner", beside=RUNNER)) == []


def test_it_has_as_many_commands_and_configs_as_it_should():
    assert PAGE.count("`python run.py CONFIG") == 6
    assert PAGE.count("```python") == 2
