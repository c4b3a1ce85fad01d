import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.partitioners import NumWorkerPartitioner
from opencompass_ext.partitioners.sizes import Size


def partition(rows, *, models=({"abbr": "m"},), may_cut=True, **arguments):
    """Return the tasks as ``[[dataset[start:stop], ...], ...]`` for datasets of these rows."""
    tasks = NumWorkerPartitioner(**arguments).partition(
        models,
        [{"abbr": abbr} for abbr in rows],
        task_type="T",
        run_folder="x",
        measure=lambda sets: [
            None if rows[d["abbr"]] is None else Size(rows[d["abbr"]], 10 * rows[d["abbr"]])
            for d in sets
        ],
        may_cut=lambda dataset: may_cut,
    )
    return [[f"{d['abbr']}{part or ''}" for d, part in task.pieces] for task in tasks]


def test_a_large_dataset_is_dealt_out_in_equal_parts():
    assert partition({"a": 100}, num_worker=3) == [["a[0:34]"], ["a[34:68]"], ["a[68:100]"]]


def test_parts_and_small_datasets_go_round_the_workers():
    assert partition({"a": 40, "s": 16, "t": 3}, num_worker=2) == [
        ["a[0:20]", "s"],
        ["a[20:40]", "t"],
    ]


def test_no_part_is_shorter_than_asked_for():
    assert partition({"a": 40}, num_worker=8, min_task_size=16) == [
        ["a[0:16]"],
        ["a[16:32]"],
        ["a[32:40]"],
    ]


def test_a_part_per_task_and_more_parts_than_workers():
    assert partition({"a": 40}, num_worker=1, num_split=2, strategy="split") == [
        ["a[0:20]"],
        ["a[20:40]"],
    ]
    assert partition({"a": 48}, num_worker=2, num_split=3) == [
        ["a[0:16]", "a[32:48]"],
        ["a[16:32]"],
    ]


def test_what_may_not_be_cut_or_measured_stays_whole():
    assert partition({"a": 100, "b": 100}, num_worker=2, may_cut=False) == [["a"], ["b"]]
    assert partition({"a": 100}, num_worker=4, num_split=1) == [["a"]]
    assert partition({"gone": None}, num_worker=4) == [["gone"]]


def test_processes_of_one_model_share_the_rows():
    model = {"abbr": "m", "run_cfg": {"num_procs": 2, "num_gpus": 4}}
    assert partition({"a": 100, "s": 20}, models=[model], num_split=1) == [
        ["a[0:50]"],
        ["a[50:100]"],
        ["s"],
    ]


@pytest.mark.parametrize("rows", [1, 16, 17, 99, 1000])
@pytest.mark.parametrize("num_worker", [1, 2, 7, 40])
def test_every_row_stands_in_one_part(rows, num_worker):
    tasks = NumWorkerPartitioner(num_worker=num_worker, min_task_size=1).partition(
        [{"abbr": "m"}],
        [{"abbr": "a"}],
        task_type="T",
        run_folder="x",
        measure=lambda sets: [Size(rows, rows)],
        may_cut=lambda dataset: True,
    )
    parts = [part for task in tasks for _, part in task.pieces]
    numbers = [i for part in parts if part for i in range(part.start, part.stop)]
    assert sorted(numbers) == (list(range(rows)) if parts != [None] else [])
    assert all(part is None or part.total == rows for part in parts)


@pytest.mark.parametrize(
    "arguments",
    [{"num_worker": 0}, {"num_split": 0}, {"min_task_size": "1"}, {"strategy": "clever"}],
)
def test_arguments_that_make_no_sense(arguments):
    with pytest.raises(ConfigError, match=f"NumWorkerPartitioner: {next(iter(arguments))} must"):
        NumWorkerPartitioner(**arguments)


def test_opencompass_arguments_are_taken():
    partitioner = NumWorkerPartitioner(
        num_worker=4,
        num_split=2,
        min_task_size=8,
        strategy="split",
        dataset_size_path="sizes.json",
        keep_keys=["eval.runner"],
    )
    assert partitioner.dataset_size_path == "sizes.json"
