import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.partitioners import SizePartitioner
from opencompass_ext.partitioners.sizes import Size

# Rows of 128 tokens: each costs 1.
ROW = 128


def partition(sizes, datasets=None, **arguments):
    tasks = SizePartitioner(**arguments).partition(
        [{"abbr": "m"}],
        datasets or [{"abbr": abbr} for abbr in sizes],
        task_type="T",
        run_folder="x",
        measure=lambda sets: [sizes[d["abbr"]] for d in sets],
        may_cut=lambda dataset: True,
    )
    return [[f"{d['abbr']}{part or ''}" for d, part in task.pieces] for task in tasks]


def rows(count, tokens=ROW):
    return Size(count, count * tokens)


def test_the_dearest_comes_first_and_a_task_holds_what_fits():
    sizes = {"a": rows(10), "b": rows(60), "c": rows(30), "d": rows(25)}
    assert partition(sizes, max_task_size=60) == [["b"], ["c", "d"], ["a"]]


def test_what_costs_too_much_is_cut_evenly():
    assert partition({"a": rows(100)}, max_task_size=40) == [
        ["a[0:34]"],
        ["a[34:67]"],
        ["a[67:100]"],
    ]


def test_long_rows_cost_more_than_short_ones():
    sizes = {"long": rows(40, tokens=4 * ROW), "short": rows(40, tokens=ROW // 4)}
    assert partition(sizes, max_task_size=40) == [
        ["long[0:10]"],
        ["long[10:20]"],
        ["long[20:30]"],
        ["long[30:40]"],
        ["short"],
    ]


def test_a_single_row_may_cost_more_than_a_task():
    assert partition({"a": rows(2, tokens=1000 * ROW)}, max_task_size=10) == [
        ["a[0:1]"],
        ["a[1:2]"],
    ]


def test_generating_and_scoring_by_label_cost_more():
    def dataset(abbr, inferencer, template):
        infer_cfg = {"inferencer": {"type": inferencer}, "prompt_template": {"template": template}}
        return {"abbr": abbr, "infer_cfg": infer_cfg}

    datasets = [
        dataset("score", "InferencePPLOnlyInferencer", "{text}"),
        dataset("chat", "InferencePPLOnlyInferencer", {"round": []}),
        dataset("labels", "InferencePPLOnlyInferencer", {"A": "a", "B": "b", "C": "c"}),
        dataset("gen", "GenInferencer", "{text}"),
    ]
    sizes = {d["abbr"]: rows(10) for d in datasets}
    assert partition(sizes, datasets, max_task_size=50, gen_task_coef=5) == [
        ["gen"],
        ["labels", "score", "chat"],
    ]


def test_each_part_a_task():
    assert partition({"a": rows(1), "b": rows(2)}, strategy="split") == [["b"], ["a"]]


def test_what_cannot_be_measured_is_a_task_that_will_say_why():
    assert partition({"gone": None, "a": rows(5)}, max_task_size=10) == [["a", "gone"]]


@pytest.mark.parametrize("arguments", [{"max_task_size": 0}, {"gen_task_coef": 1.5}])
def test_arguments_that_make_no_sense(arguments):
    with pytest.raises(ConfigError, match=f"SizePartitioner: {next(iter(arguments))} must"):
        SizePartitioner(**arguments)
