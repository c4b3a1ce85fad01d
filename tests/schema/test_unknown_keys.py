import copy

from opencompass_ext.schema import check_config, without_unknown_keys


def test_keys_that_nothing_reads_are_left_out_at_every_depth(config):
    odd = copy.deepcopy(config)
    odd["models"][0]["colour"] = "red"
    odd["models"][0]["run_cfg"]["colour"] = "red"
    odd["datasets"][0]["reader_cfg"]["colour"] = "red"
    odd["datasets"][0]["infer_cfg"]["retriever"]["colour"] = "red"
    assert len(check_config(odd, strict=False)) == 4
    assert without_unknown_keys(odd) == config


def test_combinations_lose_the_same_keys(config):
    config["models"][0]["colour"] = "red"
    group = {"models": config["models"], "datasets": config["datasets"]}
    config["model_dataset_combinations"] = [group]
    known = without_unknown_keys(config)
    assert "colour" not in known["models"][0]
    assert known["model_dataset_combinations"] == [
        {"models": known["models"], "datasets": known["datasets"]}
    ]


def test_combinations_that_are_none_stay_none(config):
    config |= {"model_dataset_combinations": None, "modells": 3}
    assert without_unknown_keys(config) == config


def test_a_key_that_a_class_of_ones_own_may_read_stays(config):
    config["models"][0] = {"type": "schema_fakes.OpenModel", "abbr": "m", "sizee": 3}
    assert len(check_config(config, strict=False)) == 1
    assert without_unknown_keys(config) == config
