import pytest

from opencompass_ext.cli.arguments import parse_run_arguments
from opencompass_ext.cli.quick import quick_dataset, quick_model
from opencompass_ext.errors import ConfigError
from opencompass_ext.schema import check_config


def model(*flags):
    return quick_model(parse_run_arguments(flags))


def dataset(*flags):
    return quick_dataset(parse_run_arguments(flags))


def test_without_flags_there_is_neither():
    assert model() is None
    assert dataset() is None


@pytest.mark.parametrize("path", ["org/opt-125m", "/models/opt-125m/", "opt-125m"])
def test_the_abbr_is_the_last_part_of_the_path(path):
    assert model("--hf-path", path)["abbr"] == "opt-125m_hf"


def test_every_flag_of_a_model_reaches_its_config():
    flags = (
        "--hf-path m --hf-num-gpus 2 --tokenizer-path t --peft-path p "
        "--model-kwargs dtype=float32 device_map='auto' --tokenizer-kwargs use_fast=True "
        "--peft-kwargs a=1 --generation-kwargs do_sample=False --max-seq-len 8 --max-out-len 9 "
        "--batch-size 4 --pad-token-id 0"
    )
    assert model(*flags.split()) == {
        "type": "HuggingFaceBaseModel",
        "abbr": "m_hf",
        "path": "m",
        "run_cfg": {"num_gpus": 2},
        "tokenizer_path": "t",
        "peft_path": "p",
        "model_kwargs": {"dtype": "float32", "device_map": "auto"},
        "tokenizer_kwargs": {"use_fast": True},
        "peft_kwargs": {"a": 1},
        "generation_kwargs": {"do_sample": False},
        "max_seq_len": 8,
        "max_out_len": 9,
        "batch_size": 4,
        "pad_token_id": 0,
    }


@pytest.mark.parametrize(("visible", "gpus"), [("", 0), ("GPU-5d5b", 1), ("0,1", 1)])
def test_a_gpu_is_used_where_there_is_one(monkeypatch, visible, gpus):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert model("--hf-path", "m")["run_cfg"] == {"num_gpus": gpus}


@pytest.mark.parametrize(
    "flags", ["--batch-size 4", "--hf-num-gpus 1", "--hf-type chat", "--model-kwargs a=1"]
)
def test_model_flags_without_a_model_are_refused(flags):
    with pytest.raises(ConfigError, match=r"describes the model of --hf-path, which is not given"):
        model(*flags.split())


def test_a_chat_model_gets_its_template():
    assert model("--hf-path", "m", "--hf-type", "chat")["type"] == "HuggingFacewithChatTemplate"
    assert model("--hf-path", "m")["type"] == "HuggingFaceBaseModel"


def test_a_key_given_twice_is_refused():
    with pytest.raises(ConfigError, match=r"--model-kwargs has the key 'a' twice"):
        model("--hf-path", "m", "--model-kwargs", "a=1", "a=2")


def test_a_file_with_labelled_texts():
    data = dataset("--custom-dataset-path", "dir/my.texts.jsonl")
    assert (data["abbr"], data["type"], data["path"]) == (
        "my.texts",
        "InferencePPLDataset",
        "dir/my.texts.jsonl",
    )
    assert data["infer_cfg"]["prompt_template"]["template"] == "{text}"


def test_a_file_with_a_template():
    flags = ["--custom-dataset-path", "qa.csv", "--custom-dataset-template"]
    flags += [r"Q: {q}\nA: {a}", "--custom-dataset-labelled-columns", "a"]
    data = dataset(*flags)
    assert data["type"] == "JsonlDataset"
    assert data["infer_cfg"]["prompt_template"]["template"] == "Q: {q}\nA: {a}"
    assert data["infer_cfg"]["inferencer"]["labelled_columns"] == ["a"]


def test_quick_configs_pass_the_check():
    template = ["--custom-dataset-template", "{q}{a}", "--custom-dataset-labelled-columns", "a"]
    datasets = [
        dataset("--custom-dataset-path", "texts.jsonl"),
        dataset("--custom-dataset-path", "qa.jsonl", *template),
    ]
    models = [model("--hf-path", "m", "--max-seq-len", "8", "--max-out-len", "9")]
    assert check_config({"models": models, "datasets": datasets}) == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--custom-dataset-template", "{a}"], "the file of --custom-dataset-path, which is not"),
        (["--custom-dataset-path", "f", "--custom-dataset-template", "{a}"], "go together"),
        (["--custom-dataset-path", "f", "--custom-dataset-labelled-columns", "a"], "go together"),
    ],
)
def test_half_a_dataset_is_refused(flags, message):
    with pytest.raises(ConfigError, match=message):
        dataset(*flags)
