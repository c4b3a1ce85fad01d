import pytest

from opencompass_ext.cli.arguments import parse_run_arguments
from opencompass_ext.cli.cluster import with_cluster_flags
from opencompass_ext.errors import ConfigError
from opencompass_ext.registry import RUNNERS

LOCAL = {
    "type": "LocalRunner",
    "task": {"type": "OpenICLInferTask"},
    "max_num_workers": 2,
    "max_workers_per_gpu": 3,
}


def runner_of(flags, runner=LOCAL):
    return with_cluster_flags(runner, parse_run_arguments(["eval.py", *flags.split()]))


def test_without_flags_a_runner_stays_as_it_is():
    assert runner_of("") == LOCAL
    slurm = {"type": "opencompass.runners.SlurmRunner", "partition": "a", "max_num_workers": 4}
    assert runner_of("", slurm) == slurm


@pytest.mark.parametrize(
    ("flags", "keys"),
    [
        ("--slurm", {"type": "SlurmRunner"}),
        (
            "--slurm -p gpu -q auto --qos high --retry 5",
            {
                "type": "SlurmRunner",
                "partition": "gpu",
                "quotatype": "auto",
                "qos": "high",
                "retry": 5,
            },
        ),
        ("--ray", {"type": "RayRunner"}),
        ("--ray auto", {"type": "RayRunner", "address": "auto"}),
        ("--ray head:6379 --retry 0", {"type": "RayRunner", "address": "head:6379", "retry": 0}),
    ],
)
def test_a_flag_replaces_the_runner_and_keeps_its_task(flags, keys):
    changed = runner_of(flags)
    assert changed == {**keys, "task": LOCAL["task"]}
    RUNNERS.build(changed)


def test_what_a_config_says_of_the_same_runner_stays():
    slurm = {
        "type": "opencompass.runners.SlurmRunner",
        "partition": "a",
        "qos": "b",
        "extra_command": ["--time=5"],
    }
    assert runner_of("--slurm -p c", slurm) == {**slurm, "partition": "c"}
    assert runner_of("-p c", slurm) == {**slurm, "partition": "c"}
    ray = {"type": "RayRunner", "address": "head:6379", "num_cpus": 2}
    assert runner_of("--ray", ray) == ray


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("-p gpu", "-p gpu is for Slurm: add --slurm"),
        ("--ray --qos high", "--qos high is for Slurm"),
        ("--slurm --max-workers-per-gpu 2", "Slurm gives each job GPUs of its own"),
        ("--slurm --debug", "--debug runs tasks in this process"),
        ("--slurm --ray", "--ray: not allowed with argument --slurm"),
        ("--retry -1", "must be at least 0"),
    ],
)
def test_flags_that_do_not_go_together_are_told(flags, told):
    with pytest.raises(ConfigError, match=told):
        runner_of(flags)


def test_a_config_taken_for_an_address_is_told():
    with pytest.raises(ConfigError, match="write the config before --ray"):
        parse_run_arguments(["--ray", "eval.py"])
