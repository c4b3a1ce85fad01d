import copy

import pytest

from opencompass_ext.config import load_config
from opencompass_ext.errors import ConfigError
from opencompass_ext.redact import HIDDEN_SECRET
from opencompass_ext.schema import check_config, check_parts


def spoil(config, path, value):
    """Set ``path`` (keys and indices) of a config; a value of ``...`` removes it."""
    *parents, last = path
    for key in parents:
        config = config[key]
    if value is ...:
        del config[last]
    else:
        config[last] = value


def problems(config, **kwargs):
    with pytest.raises(ConfigError) as caught:
        check_config(config, **kwargs)
    return str(caught.value).splitlines()


def test_a_good_config_passes(config):
    assert check_config(config) == []


def test_all_sections_of_opencompass_pass(config):
    config["infer"] = {
        "partitioner": {"type": "opencompass.partitioners.NaivePartitioner", "n": 2},
        "runner": {
            "type": "opencompass.runners.LocalRunner",
            "max_num_workers": 4,
            "max_workers_per_gpu": 2,
            "debug": False,
            "retry": 1,
            "task": {"type": "opencompass.tasks.OpenICLInferTask"},
        },
    }
    config["eval"] = {"runner": {"max_num_workers": 2}}
    config["summarizer"] = {"dataset_abbrs": ["demo"], "summary_groups": []}
    config["work_dir"] = "outputs/x"
    config["models"][0] |= {"max_out_len": 8, "min_out_len": 1, "batch_size": 4}
    config["models"][0] |= {"summarizer_abbr": "u", "run_cfg": {"num_gpus": 1, "num_procs": 1}}
    config["datasets"][0] |= {"n": 1, "k": [1], "limit": 5}
    assert check_config(config) == []


def test_a_template_may_be_left_out_where_the_inferencer_needs_none(config):
    del config["datasets"][0]["infer_cfg"]["prompt_template"]
    config["datasets"][0]["infer_cfg"]["inferencer"] = {"type": "SourceSupportInferencer"}
    assert check_config(config) == []


@pytest.mark.parametrize(
    ("inferencer", "template", "column"),
    [
        ({"type": "PPLqaInferencer"}, "Answer well.", "question"),
        ({"type": "GEvalInferencer"}, {"round": [{"role": "HUMAN", "prompt": "q"}]}, "question"),
        ({"type": "InferencePPLOnlyInferencer"}, "{txt}", "text"),
        ({"type": "InferencePPLOnlyInferencer", "text_column": "body"}, "{text}", "body"),
        ({"type": "InferencePPLOnlyInferencer", "labelled_columns": ["a", "b"]}, "{a}", "b"),
    ],
)
def test_a_template_without_what_the_inferencer_looks_for(config, inferencer, template, column):
    infer_cfg = config["datasets"][0]["infer_cfg"]
    infer_cfg["inferencer"] = inferencer
    infer_cfg["prompt_template"]["template"] = template
    (problem,) = problems(config)
    assert "datasets[0].infer_cfg.prompt_template.template: must insert" in problem
    assert f"must insert {{{column}}}, which {inferencer['type']} looks for" in problem


@pytest.mark.parametrize(
    ("inferencer", "template"),
    [
        ({"type": "PPLqaInferencer"}, {"round": [{"role": "HUMAN", "prompt": "{question}"}]}),
        ({"type": "InferencePPLOnlyInferencer", "labelled_columns": ["a"]}, "{b} {a}"),
        ({"type": "GenInferencer", "max_out_len": 4}, "Say something."),
    ],
)
def test_a_template_with_what_the_inferencer_looks_for(config, inferencer, template):
    infer_cfg = config["datasets"][0]["infer_cfg"]
    infer_cfg["inferencer"] = inferencer
    infer_cfg["prompt_template"]["template"] = template
    assert check_config(config) == []


def test_the_judge_of_an_evaluator_is_checked(config):
    judge = {"type": "EndpointJudge", "modle": "m"}
    config["datasets"][0]["eval_cfg"]["evaluator"] = {"type": "ThelmaEvaluator", "judge_cfg": judge}
    assert "datasets[0].eval_cfg.evaluator.judge_cfg.modle: unknown key" in problems(config)[0]
    judge = {"type": "LocalJudge", "model": {"type": "HuggingFacewithChatTemplate", "pth": "x"}}
    config["datasets"][0]["eval_cfg"]["evaluator"]["judge_cfg"] = judge
    assert "judge_cfg.model.pth: unknown key" in problems(config)[0]


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (["models", 0, "run_cfg", "num_gpu"], 1, "models[0].run_cfg.num_gpu: unknown key, did you"),
        (["models", 0, "vocabsize"], 1, "models[0].vocabsize: unknown key, did you mean 'vocab_si"),
        (["datasets", 0, "infer_cgf"], {}, "datasets[0].infer_cgf: unknown key, did you mean 'inf"),
        (["datasets", 0, "pth"], "", "datasets[0].pth: unknown key, did you mean 'path'"),
        (["datasets", 0, "reader_cfg", "input_cols"], [], "reader_cfg.input_cols: unknown key"),
        (["datasets", 0, "eval_cfg", "evaluatr"], {}, "eval_cfg.evaluatr: unknown key, did you"),
        (["infer"], {"runer": {}}, "infer.runer: unknown key, did you mean 'runner'"),
        (
            ["eval"],
            {"runner": {"max_num_worker": 2}},
            "eval.runner.max_num_worker: unknown key, did you mean 'max_num_workers'",
        ),
        (["summarizer"], {"dataset_abbr": []}, "summarizer.dataset_abbr: unknown key, did you"),
        (["workdir"], "out", "workdir: unknown key, did you mean 'work_dir'"),
        (["model"], [{"path": "x"}], "model: unknown key, did you mean 'models'"),
        (["dataset"], 3, "dataset: unknown key, did you mean 'datasets'"),
        (["summarizers"], {}, "summarizers: unknown key, did you mean 'summarizer'"),
        (["infers"], {}, "infers: unknown key, did you mean 'infer'"),
        (["WorkDir"], "out", "WorkDir: unknown key, did you mean 'work_dir'"),
    ],
)
def test_unknown_keys_are_errors_with_a_near_name_or_else_warnings(config, path, value, told):
    spoil(config, path, value)
    (problem,) = problems(config)
    assert told in problem
    assert check_config(config, strict=False) == [problem]


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (["models"], ..., "the config needs the list 'models'"),
        (["datasets"], ..., "the config needs the list 'datasets'"),
        (["models"], None, "models: must be a list of dicts, got None"),
        (["datasets"], None, "datasets: must be a list of dicts, got None"),
        (["models"], [], "models: is empty"),
        (["models"], {"path": "x"}, "models: must be a list of dicts, got a dict of 1: write mod"),
        (["models"], [[{}]], "models[0]: must be a dict, got a list of 1: put a * before the list"),
        (["datasets", 0], "demo", "datasets[0]: must be a dict, got 'demo' (str)"),
        (["models", 0, "type"], ..., "models[0]: the key 'type' is missing"),
        (["models", 0, "type"], "ScriptdModel", "models[0].type: unknown model type 'ScriptdMod"),
        (["models", 0, "type"], "no_such_module.M", "No module named 'no_such_module'"),
        (["models", 0, "path"], 3, "models[0].path: must be text, got 3 (int)"),
        (["models", 0, "batch_size"], "4", "models[0].batch_size: must be an integer or None"),
        (["models", 0, "run_cfg", "num_gpus"], True, "must be an integer, got True (bool)"),
        (["models", 0, "run_cfg", "num_gpus"], -1, "models[0].run_cfg.num_gpus: must be a whole "),
        (
            ["models", 0, "run_cfg", "num_procs"],
            0,
            "run_cfg.num_procs: must be a whole number >= 1",
        ),
        (["models", 0, "batch_size"], -1, "models[0].batch_size: must be a whole number >= 1, got"),
        (["models", 0, "batch_size"], 0, "models[0].batch_size: must be a whole number >= 1, got"),
        (["models", 0, "max_out_len"], 0, "models[0].max_out_len: must be a whole number >= 1"),
        (["models", 0, "min_out_len"], -1, "models[0].min_out_len: must be a whole number >= 0"),
        (["datasets", 0, "eval_cfg", "num_gpus"], -1, "eval_cfg.num_gpus: must be a whole number"),
        (["models", 0, "run_cfg"], [1], "models[0].run_cfg: must be a dict, got a list of 1"),
        (["datasets", 0, "path"], ..., "datasets[0]: the key 'path' is missing"),
        (["datasets", 0, "path"], ["a"], "datasets[0].path: must be text, got a list of 1"),
        (["datasets", 0, "type"], "InferencePPLDatset", "did you mean 'InferencePPLDataset'"),
        (["datasets", 0, "infer_cfg"], ..., "datasets[0]: the key 'infer_cfg' is missing"),
        (["datasets", 0, "infer_cfg"], [], "datasets[0].infer_cfg: must be a dict"),
        (["datasets", 0, "infer_cfg", "inferencer"], ..., "the key 'inferencer' is missing"),
        (["datasets", 0, "infer_cfg", "retriever"], ..., "the key 'retriever' is missing"),
        (["datasets", 0, "infer_cfg", "prompt_template"], ..., "needs a 'prompt_template'"),
        (
            ["datasets", 0, "infer_cfg", "retriever"],
            {"type": "FixKRetriever"},
            "infer_cfg.retriever: the key 'fix_id_list' is missing",
        ),
        (
            ["datasets", 0, "infer_cfg", "inferencer", "labelled_columns"],
            "answer",
            "inferencer.labelled_columns: must be a list of text or None, got 'answer'",
        ),
        (["datasets", 0, "infer_cfg", "prompt_template", "template"], ..., "the key 'template' is"),
        (["datasets", 0, "eval_cfg"], ..., "datasets[0]: the key 'eval_cfg' is missing"),
        (["datasets", 0, "eval_cfg", "evaluator"], ..., "eval_cfg: the key 'evaluator' is missing"),
        (["datasets", 0, "eval_cfg", "evaluator", "type"], "AccEvalator", "eval_cfg.evaluator.typ"),
        (["infer"], [], "infer: must be a dict, got a list of 0"),
        (["infer"], {"partitioner": {"n": 0}}, "infer.partitioner: NaivePartitioner: n must be"),
        (["infer"], {"runner": {"type": "SlrmRunner"}}, "infer.runner.type: unknown runner type"),
        (
            ["infer"],
            {"runner": {"task": {"type": "OpenICLEvalTask"}}},
            "infer.runner.task.type: 'OpenICLEvalTask' is for the section 'eval'",
        ),
        (["work_dir"], 3, "work_dir: must be the path of a folder, got 3"),
        (["work_dir"], "", "work_dir: must be the path of a folder, got ''"),
        (["models", 0, "abbr"], "", "models[0].abbr: is empty"),
        (["models", 0, "path"], HIDDEN_SECRET, "models[0].path: the secret was left out"),
    ],
)
def test_mistakes_are_errors_strict_or_not(config, path, value, told):
    spoil(config, path, value)
    (problem,) = problems(config)
    assert told in problem
    assert problems(config, strict=False) == [problem]


def test_counts_may_be_at_their_bound_or_left_open(config):
    config["models"][0] |= {"batch_size": 1, "max_out_len": None, "min_out_len": 0}
    config["models"][0]["run_cfg"] = {"num_gpus": 0, "num_procs": 1}
    assert check_config(config) == []


def test_stages_without_a_value_are_left_to_defaults(config):
    config |= {"infer": None, "eval": None, "summarizer": None, "work_dir": None}
    assert check_config(config) == []


@pytest.mark.parametrize("section", ["models", "datasets"])
def test_a_combination_needs_its_lists(config, section):
    group = {"models": config["models"], "datasets": config["datasets"], section: None}
    config["model_dataset_combinations"] = [group]
    (problem,) = problems(config)
    assert f"model_dataset_combinations[0].{section}: must be a list of dicts" in problem


@pytest.mark.parametrize(("name", "section"), [("model", "models"), ("dataset", "datasets")])
def test_a_misspelt_section_is_told_alike_in_a_whole_config_and_a_part(config, name, section):
    whole = {**config, name: config[section]}
    del whole[section]
    assert f"{name}: unknown key, did you mean {section!r}?" in problems(whole)[0]
    with pytest.raises(ConfigError) as caught:
        check_parts(whole)
    assert str(caught.value) == problems(whole)[0]


def test_a_part_may_have_helpers_and_many_lists_of_datasets(config):
    dataset = config["datasets"][0]
    assert check_parts({"dataset": dataset, "a_datasets": [dataset]}) == []
    assert check_parts({"model": config["models"], "models": config["models"]}) == []


def test_all_problems_are_told_at_once(config):
    config["models"][0]["vocabsize"] = 3
    config["datasets"][0]["path"] = 3
    config["workdir"] = "x"
    assert len(problems(config)) == 3


def test_one_slip_in_a_loop_is_told_once(config):
    config["models"] = [{**config["models"][0], "abbr": f"m{i}", "pth": ""} for i in range(9)]
    (problem,) = problems(config)
    assert problem.startswith("models[0].pth: unknown key")
    assert problem.endswith("(and in 8 more entries)")


def test_what_this_machine_lacks_is_no_mistake_of_the_config(config):
    config["models"][0] = {"type": "HuggingFaceBaseModel", "path": "/nowhere/at/all"}
    assert check_config(config) == []


def test_a_value_that_its_class_refuses_is_told(config):
    config["models"][0] = {"type": "HuggingFaceBaseModel", "path": "/m", "long_text": "windw"}
    (problem,) = problems(config)
    assert problem.startswith("models[0]: long_text must be one of")


def test_inference_alone_needs_no_evaluator(config):
    del config["datasets"][0]["eval_cfg"]
    assert check_config(config, mode="infer") == []


def test_names_in_a_dataset_class_that_takes_anything_are_free(config, write, monkeypatch):
    write("anything_data.py", "class Anything:\n    def __init__(self, **kwargs): pass\n")
    monkeypatch.syspath_prepend(".")
    config["datasets"][0] = {**config["datasets"][0], "type": "anything_data.Anything", "rows": 3}
    assert check_config(config) == []
    config["datasets"][0]["infer_cgf"] = {}
    assert "did you mean 'infer_cfg'" in problems(config)[0]


@pytest.mark.parametrize("section", ["models", "datasets"])
def test_two_of_one_abbr_are_refused(config, section):
    config[section].append(copy.deepcopy(config[section][0]))
    (problem,) = problems(config)
    assert (
        f"{section}[1].abbr: {config[section][0]['abbr']!r} is the abbr of {section}[0]" in problem
    )


def test_abbrs_that_differ_in_case_only_are_refused(config):
    config["models"].append({**config["models"][0], "abbr": "UNIFORM"})
    (problem,) = problems(config)
    assert "models[1].abbr: 'UNIFORM' and 'uniform' of models[0] differ in case only" in problem


def test_equal_default_abbrs_are_refused(config):
    for path in ("/a/b/c", "/x/b/c"):
        config["models"].append({"type": "ScriptedModel", "path": path})
    (problem,) = problems(config)
    assert "models[2].abbr: 'ScriptedModel_b_c' is the abbr of models[1]" in problem


def test_combinations_must_be_of_known_models_and_datasets(config):
    config["model_dataset_combinations"] = [
        {"models": [dict(config["models"][0], abbr="unifrom")], "datasets": config["datasets"]}
    ]
    (problem,) = problems(config)
    assert "model_dataset_combinations[0].models[0]: 'unifrom' is not one of the models" in problem
    assert "did you mean 'uniform'?" in problem


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (3, "models[0]: must be a dict, got 3"),
        ({}, "models[0]: the key 'type' is missing"),
        ({"abbr": "uniform"}, "models[0]: the key 'type' is missing"),
        ({"type": "ScriptedModel", "abbr": "uniform", "sizee": 3}, "models[0].sizee: unknown key"),
    ],
)
def test_entries_of_combinations_that_are_not_those_of_the_lists_are_checked(
    config, entry, message
):
    group = {"models": [entry], "datasets": config["datasets"]}
    config["model_dataset_combinations"] = [group]
    (problem,) = problems(config)
    assert f"model_dataset_combinations[0].{message}" in problem


@pytest.mark.parametrize("value", [{}, [3], [{"models": []}]])
def test_combinations_have_a_form(config, value):
    config["model_dataset_combinations"] = value
    assert "model_dataset_combinations" in problems(config)[0]


class TestHelpers:
    """Variables at the top level whose names look like sections."""

    @pytest.mark.parametrize("name", ["eval_cfg", "infer_cfg", "my_models", "val", "size", "data"])
    def test_most_names_are_free(self, config, name):
        assert check_config({**config, name: 3}) == []

    def test_what_stands_in_a_section_is_a_helper(self, config):
        config["model"] = config["models"][0]
        config["datasets1"] = list(config["datasets"])
        assert check_config(config) == []

    def test_loop_variables_are_helpers(self, config, write):
        path = write("c.py", "for model in [1, 2]:\n    pass\n")
        assert check_config({**config, "model": 2}, [path]) == []


class TestPlaces:
    """Errors name file and line where the text shows them."""

    def test_a_key_of_the_file(self, config, write):
        path = write("c.py", "models = [\n    dict(\n        run_cfg=dict(num_gpu=1))]\n")
        config["models"][0]["run_cfg"] = {"num_gpu": 1}
        (problem,) = problems(config, sources=[path])
        assert problem.startswith("c.py:3: models[0].run_cfg.num_gpu: unknown key")

    def test_a_key_of_a_file_that_it_reads(self, config, write):
        write("base.py", "x = 1\nrun = {'run_cfg': {\n    'num_gpu': 1}}")
        path = write("c.py", "with read_base():\n    from .base import run\n")
        config["models"][0]["run_cfg"] = {"num_gpu": 1}
        (problem,) = problems(config, sources=[path])
        assert problem.startswith("base.py:3: models[0].run_cfg.num_gpu")

    def test_keys_of_one_name_are_told_apart_by_the_key_around_them(self, config, write):
        path = write("c.py", "a = dict(pth=1)\nreader_cfg = dict(pth=2)\nb = dict(pth=3)\n")
        config["datasets"][0]["reader_cfg"]["pth"] = 2
        (problem,) = problems(config, sources=[path])
        assert problem.startswith("c.py:2: datasets[0].reader_cfg.pth")

    def test_an_unclear_place_is_the_file(self, config, write):
        path = write("c.py", "a = dict(pth=1)\nb = dict(pth=2)\n")
        config["datasets"][0]["pth"] = 2
        (problem,) = problems(config, sources=[path])
        assert problem.startswith("c.py: datasets[0].pth")

    def test_an_unclear_place_can_be_given_in_words(self, config, write):
        path = write("c.py", "")
        config["datasets"][0]["pth"] = 2
        (problem,) = problems(config, sources=[path], origin="the command line")
        assert problem.startswith("the command line: datasets[0].pth")


def test_parts_of_configs_are_checked(write):
    path = write(
        "part.py",
        """
        a_datasets = [dict(type='InferencePPLDataset', pth='x', infer_cfg=dict())]
        models = [dict(type='ScriptedModel', vocabsize=2)]
        """,
    )
    with pytest.raises(ConfigError) as caught:
        check_parts(load_config(path), [path])
    text = str(caught.value)
    for told in ("a_datasets[0].pth", "'inferencer' is missing", "models[0].vocabsize"):
        assert told in text
