import os

from opencompass_ext.schema import check_config, complete_config


def test_left_out_sections_are_filled_in(config):
    complete = complete_config(config)
    assert complete["infer"] == {
        "partitioner": {"type": "NaivePartitioner"},
        "runner": {"type": "LocalRunner", "task": {"type": "OpenICLInferTask"}},
    }
    assert complete["summarizer"] == {"type": "DefaultSummarizer"}
    assert check_config(complete) == []


def test_what_is_given_stays(config):
    config["infer"] = {"partitioner": {"n": 3}, "runner": {"retry": 2, "task": {"type": "My"}}}
    infer = complete_config(config)["infer"]
    assert infer["partitioner"] == {"type": "NaivePartitioner", "n": 3}
    assert infer["runner"] == {"type": "LocalRunner", "retry": 2, "task": {"type": "My"}}


def test_helper_variables_are_left_out(config):
    assert "helper" not in complete_config({**config, "helper": 3})


def test_default_abbrs_are_those_of_opencompass(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink(tmp_path / "org" / "opt-125m", tmp_path / "link")
    config["models"] = [
        {"type": "opencompass.models.HuggingFaceBaseModel", "path": "facebook/opt-125m"},
        {"type": "HuggingFaceBaseModel", "path": "link"},
    ]
    del config["datasets"][0]["abbr"]
    config["datasets"].append({**config["datasets"][0], "path": "data/x", "name": "zh"})
    complete = complete_config(config)
    assert [m["abbr"] for m in complete["models"]] == [
        "HuggingFaceBaseModel_facebook_opt-125m",
        "HuggingFaceBaseModel_org_opt-125m",
    ]
    assert [d["abbr"] for d in complete["datasets"]] == ["data_demo.jsonl", "data_x_zh"]


def test_combinations_get_the_same_abbrs(config):
    for section in ("models", "datasets"):
        del config[section][0]["abbr"]
    group = {"models": config["models"], "datasets": config["datasets"]}
    complete = complete_config({**config, "model_dataset_combinations": [group]})
    assert complete["model_dataset_combinations"] == [
        {"models": complete["models"], "datasets": complete["datasets"]}
    ]
