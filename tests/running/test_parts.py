"""Runs in which several tasks share the rows of a data set."""

import json
import os

import pytest

ROWS = 40


@pytest.fixture
def cut(shop):
    """Makes configs whose data sets are cut for so many workers."""

    def make(models, datasets, num_worker, **runner):
        config = shop.config(models, datasets, max_num_workers=2, **runner)
        config["infer"]["partitioner"] = {
            "type": "NumWorkerPartitioner",
            "num_worker": num_worker,
            "min_task_size": 5,
        }
        return config

    return make


@pytest.fixture
def unbroken(shop):
    """The bytes that a run in one piece gives for data set ``a``."""
    out, shop.out = shop.out, shop.folder / "unbroken"
    assert shop.run(shop.config([shop.model()], [shop.dataset("a", ROWS)]), mode="infer")[0] == 0
    content = shop.file("predictions", "m", "a").read_bytes()
    shop.out = out
    return content


def logged(shop, name, **changes):
    return shop.model(type="run_fakes.LoggedModel", scored_log=str(shop.folder / name), **changes)


def rows_in(shop, name):
    path = shop.folder / name
    return sorted(int(line) for line in path.read_text().split()) if path.exists() else []


def test_parts_end_as_the_file_of_a_run_in_one_piece(shop, cut, unbroken):
    config = cut([logged(shop, "log")], [shop.dataset("a", ROWS), shop.dataset("b", 3)], 4)
    code, output = shop.run(config, workers=True)
    assert code == 0, output
    for part in ("0:10", "10:20", "20:30", "30:40"):
        assert f"OpenICLInfer[m/a[{part}]] done" in output
    assert "OpenICLInfer[m/b] done" in output
    assert "OpenICLEval[m/a] done" in output
    assert shop.file("predictions", "m", "a").read_bytes() == unbroken
    assert rows_in(shop, "log") == sorted([*range(ROWS), *range(3)])
    assert sorted(os.listdir(shop.root / "predictions" / "m")) == [
        *("a.json", "a.provenance", "b.json", "b.provenance"),
    ]
    assert sorted(os.listdir(shop.root / "logs" / "infer" / "m")) == ["a.rows", "b.out"]
    assert len(json.loads(shop.file("results", "m", "a").read_text())["details"]) == ROWS


def test_a_part_that_failed_is_named_and_done_alone_later(shop, cut, unbroken):
    datasets = [shop.dataset("a", ROWS)]
    code, output = shop.run(cut([shop.model(fail_on="row 17 of")], datasets, 4), workers=True)
    assert code == 1
    ((name, error, log),) = shop.summary["failures"]
    assert name == "OpenICLInfer[m/a[10:20]]"
    assert "scripted failure" in error
    assert log.endswith("a.rows/10-20.out")
    assert not shop.file("results", "m", "a").exists()
    code, output = shop.run(cut([logged(shop, "log")], datasets, 4), reuse="latest", workers=True)
    assert code == 0, output
    assert rows_in(shop, "log") == [16, 17, 18, 19]
    assert shop.file("predictions", "m", "a").read_bytes() == unbroken


@pytest.mark.parametrize("num_worker", [1, 3, 7])
def test_another_number_of_workers_uses_every_finished_row(shop, cut, unbroken, num_worker):
    datasets = [shop.dataset("a", ROWS)]
    failing = shop.model(fail_on="row 17 of")
    assert shop.run(cut([failing], datasets, 4), mode="infer")[0] == 1
    config = cut([logged(shop, "log")], datasets, num_worker)
    code, output = shop.run(config, reuse="latest")
    assert code == 0, output
    assert rows_in(shop, "log") == [16, 17, 18, 19]
    assert shop.file("predictions", "m", "a").read_bytes() == unbroken
    again = cut([shop.model(fail_on="row")], datasets, num_worker + 1)
    code, output = shop.run(again, reuse="latest")
    assert code == 0, output
    assert f"infer: {num_worker + 1} reused" in output


def test_evaluation_before_all_parts_are_there_is_refused(shop, cut):
    config = cut([shop.model(fail_on="row 17 of")], [shop.dataset("a", ROWS)], 4)
    assert shop.run(config, mode="infer")[0] == 1
    code, output = shop.run(config, mode="eval", reuse="latest")
    assert code == 1
    assert "has not finished: go on with it first (-m infer -r)" in output


def test_data_that_grew_are_cut_anew(shop, cut):
    dataset = shop.dataset("a", ROWS)
    assert shop.run(cut([shop.model()], [dataset], 4))[0] == 0
    shop.data("a", 80)
    code, output = shop.run(cut([logged(shop, "log")], [dataset], 4), reuse="latest")
    assert code == 0, output
    assert rows_in(shop, "log") == list(range(ROWS, 80))
    assert len(json.loads(shop.file("predictions", "m", "a").read_text())) == 80


def test_a_part_and_a_data_set_of_a_like_name_share_no_file(shop, cut):
    names = ["x", "x.rows", "x_1", "0-10"]
    config = cut([shop.model("x.rows")], [shop.dataset(n, 20) for n in names], 2)
    code, output = shop.run(config)
    assert code == 0, output
    for name in names:
        rows = json.loads(shop.file("predictions", "x.rows", name).read_text())
        assert [row["origin_prompt"] for row in rows.values()] == [
            f"row {i} of {name}" for i in range(20)
        ]


@pytest.mark.parametrize("abbr", ["a/b", "a:b", "a b", "'q\"", "中文数据", "..", "x" * 300])
def test_hostile_names_in_parts(shop, cut, abbr):
    texts = [f"row {i}" for i in range(12)]
    dataset = {**shop.dataset("data", texts), "abbr": abbr}
    code, output = shop.run(cut([shop.model("../org/m:v1")], [dataset], 2), workers=abbr == "'q\"")
    assert code == 0, output
    (predictions,) = shop.root.glob("predictions/*/*.json")
    assert len(json.loads(predictions.read_text())) == 12
    assert "OpenICLInfer[../org/m:v1/" + abbr + "[0:6]]" in output
    assert sorted(os.listdir(shop.out)) == [shop.root.name]


def test_processes_of_one_model_share_its_rows(shop, unbroken):
    model = shop.model(run_cfg={"num_procs": 2}, seconds_per_batch=0.05)
    config = shop.config([model], [shop.dataset("a", ROWS)])
    code, output = shop.run(config, workers=True)
    assert code == 0, output
    assert output.index("m/a[20:40]] started") < output.index("m/a[0:20]] done")
    assert shop.file("predictions", "m", "a").read_bytes() == unbroken


def test_gpus_that_cannot_be_shared_out_are_refused_before_anything(shop):
    config = shop.config([shop.model(run_cfg={"num_gpus": 3, "num_procs": 2})], [shop.dataset("a")])
    code, output = shop.run(config)
    assert code == 2
    assert "num_gpus = 3 cannot be shared out evenly to num_procs = 2" in output
    assert not shop.out.exists()


def test_two_runs_that_go_on_with_one_folder_at_once_do_no_harm(shop, cut, unbroken):
    datasets = [shop.dataset("a", ROWS)]
    failing = shop.model(fail_on="row 0 of")
    assert shop.run(shop.config([failing], datasets), mode="infer")[0] == 1
    slow = shop.model(seconds_per_batch=0.05)
    runs = [shop.start(cut([slow], datasets, n), mode="infer", reuse="latest") for n in (2, 3)]
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert shop.file("predictions", "m", "a").read_bytes() == unbroken
    assert sorted(os.listdir(shop.root / "predictions" / "m")) == ["a.json", "a.provenance"]
