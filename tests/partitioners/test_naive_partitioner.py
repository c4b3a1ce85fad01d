import json
from dataclasses import asdict

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.partitioners import NaivePartitioner

MODELS = [{"abbr": "m1", "run_cfg": {"num_gpus": 2}}, {"abbr": "m2"}]
DATASETS = [{"abbr": d} for d in "abcde"]


def partition(n=1, models=MODELS, datasets=DATASETS, **arguments):
    return NaivePartitioner(n).partition(
        models, datasets, task_type="OpenICLInferTask", run_folder="out/x", **arguments
    )


@pytest.mark.parametrize(("n", "sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_each_pair_stands_in_one_task_in_config_order(n, sizes):
    tasks = partition(n)
    pairs = [(t.model["abbr"], d["abbr"]) for t in tasks for d in t.datasets]
    assert pairs == [(m, d) for m in ("m1", "m2") for d in "abcde"]
    assert [len(t.datasets) for t in tasks] == sizes * 2


def test_tasks_are_plain_data_and_know_their_gpus():
    tasks = partition(options={"dump_details": False})
    assert [t.num_gpus for t in tasks] == [2] * 5 + [0] * 5
    assert json.loads(json.dumps(asdict(tasks[0])))["options"] == {"dump_details": False}
    assert tasks[0].run_folder == "out/x"


def test_combinations_take_the_place_of_all_pairs():
    combinations = [
        {"models": MODELS[:1], "datasets": DATASETS[:2]},
        {"models": MODELS[1:], "datasets": DATASETS[4:]},
    ]
    tasks = partition(model_dataset_combinations=combinations)
    assert [t.name for t in tasks] == [
        "OpenICLInfer[m1/a]",
        "OpenICLInfer[m1/b]",
        "OpenICLInfer[m2/e]",
    ]


def test_a_pair_that_comes_twice_is_refused():
    with pytest.raises(ConfigError, match="'m1' meets dataset 'a' twice"):
        partition(datasets=[*DATASETS, {"abbr": "a", "path": "elsewhere"}])
    with pytest.raises(ConfigError, match="'m2' meets dataset 'a' twice"):
        partition(models=[{"abbr": "m2"}, {"abbr": "m2"}])


@pytest.mark.parametrize("n", [0, -1, 1.5, "2"])
def test_n_must_be_a_number_of_datasets(n):
    with pytest.raises(ConfigError, match="n must be a whole number"):
        NaivePartitioner(n=n)
