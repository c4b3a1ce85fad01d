import json

import pytest

from opencompass_ext.cli.arguments import parse_run_arguments
from opencompass_ext.cli.run import apply_flags, assemble
from opencompass_ext.errors import ConfigError
from opencompass_ext.schema import complete_config


@pytest.fixture
def named(write, config_file):
    """A config folder with one model, one dataset and a summarizer to be named."""
    text = config_file.read_text()
    models, datasets = text.split("datasets =")
    write("cfgs/models/org/uniform.py", models)
    write("cfgs/datasets/demo/demo_ppl.py", "demo_datasets =" + datasets)
    write("cfgs/summarizers/short.py", "summarizer = dict(dataset_abbrs=['demo'])\nlong = dict()")
    return config_file


def config_of(*flags):
    return assemble(parse_run_arguments(flags)).config


def test_names_give_the_same_config_as_the_file(named):
    by_name = config_of("--config-dir", "cfgs", "--models", "uniform", "--datasets", "demo_ppl")
    assert by_name == config_of(str(named))


def test_sources_are_the_files_read(named, tmp_path):
    flags = "--config-dir cfgs --models uniform --datasets demo_ppl --summarizer short"
    sources = assemble(parse_run_arguments(flags.split())).sources
    assert [str(p.relative_to(tmp_path)) for p in sources] == [
        "cfgs/models/org/uniform.py",
        "cfgs/datasets/demo/demo_ppl.py",
        "cfgs/summarizers/short.py",
    ]


@pytest.mark.parametrize(
    ("name", "expected"), [("short", {"dataset_abbrs": ["demo"]}), ("short/long", {})]
)
def test_a_summarizer_by_name(named, name, expected):
    flags = f"--config-dir cfgs --models uniform --datasets demo_ppl --summarizer {name}"
    assert config_of(*flags.split())["summarizer"] == expected


def test_named_and_quick_parts_join(named):
    flags = "--config-dir cfgs --models uniform --hf-path m --datasets demo_ppl "
    config = config_of(*(flags + "--custom-dataset-path demo.jsonl").split())
    assert [m["abbr"] for m in config["models"]] == ["uniform", "m_hf"]
    assert [d["abbr"] for d in config["datasets"]] == ["demo", "demo"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("", "name models: --models or --hf-path"),
        ("--models uniform", "name datasets: --datasets or --custom-dataset-path"),
        ("--datasets demo_ppl", "name models"),
        (
            "--models unifrom --datasets demo_ppl",
            "config 'unifrom' in .*: did you mean 'uniform'",
        ),
        ("eval_demo.py --models uniform", "--models cannot be given beside the config file"),
        ("eval_demo.py --hf-path m", "--hf-path cannot be given beside the config file"),
        ("eval_demo.py --batch-size 4", "--batch-size describes the model of --hf-path"),
        ("--config-dir nowhere --models uniform", "--config-dir: .*nowhere is not a folder"),
    ],
)
def test_what_does_not_go_together_is_told(named, flags, message):
    dirs = [] if "--config-dir" in flags else ["--config-dir", "cfgs"]
    with pytest.raises(ConfigError, match=message):
        config_of(*dirs, *flags.split())


class TestFlagsOfARun:
    @pytest.fixture
    def apply(self, config_file):
        def apply_to(changes=(), *flags):
            args = parse_run_arguments([str(config_file), *flags])
            config = complete_config({**assemble(args).config, **dict(changes)})
            before = json.dumps(config)
            changed = apply_flags(config, args, has_infer="infer" in dict(changes))
            assert json.dumps(config) == before
            return changed

        return apply_to

    def test_the_work_dir_is_that_of_the_flag_or_the_config_or_the_default(self, apply):
        assert apply()["work_dir"] == "outputs/default"
        assert apply({"work_dir": "mine"})["work_dir"] == "mine"
        assert apply({"work_dir": "mine"}, "-w", "flag")["work_dir"] == "flag"

    def test_worker_flags_win_over_the_config(self, apply):
        infer = {"runner": {"type": "LocalRunner", "max_num_workers": 2, "retry": 1}}
        changed = apply({"infer": infer}, "--max-num-workers", "5", "--max-workers-per-gpu", "3")
        assert changed["infer"]["runner"] | {"task": None} == {
            "type": "LocalRunner",
            "task": None,
            "retry": 1,
            "max_num_workers": 5,
            "max_workers_per_gpu": 3,
        }
        assert apply({"infer": infer})["infer"]["runner"]["max_num_workers"] == 2

    def test_several_workers_share_large_datasets_unless_the_config_says_how(self, apply):
        partitioner = apply({}, "--max-num-workers", "5")["infer"]["partitioner"]
        assert partitioner == {"type": "NumWorkerPartitioner", "num_worker": 5}
        for changes, flags in (({"infer": {}}, ["--max-num-workers", "5"]), ({}, [])):
            changed = apply(changes, *flags)
            assert changed["infer"]["partitioner"] == {"type": "NaivePartitioner"}
            assert changed["eval"]["partitioner"] == {"type": "NaivePartitioner"}

    def test_limit_reaches_every_dataset_and_raises_none(self, apply, config_file):
        dataset = apply()["datasets"][0]
        datasets = [dict(dataset, abbr="a"), dict(dataset, abbr="b", limit=3)]
        combinations = [{"models": apply()["models"], "datasets": datasets}]
        changes = {"datasets": datasets, "model_dataset_combinations": combinations}
        changed = apply(changes, "--limit", "5")
        assert [d["limit"] for d in changed["datasets"]] == [5, 3]
        assert changed["model_dataset_combinations"][0]["datasets"] == changed["datasets"]
