import json

import pytest

from opencompass_ext.predictions.file import PredictionsFile
from opencompass_ext.redact import HIDDEN_SECRET, hide_secrets


@pytest.mark.parametrize(
    "key", ["key", "api_key", "openai_api_key", "token", "hf_token", "password", "Authorization"]
)
def test_literal_secrets_are_hidden_wherever_they_stand(key):
    config = {
        "models": [{"path": "m", key: "sk-very-secret"}],
        "helper": "sk-very-secret",
        "keys": {"key": ["sk-very-secret", "sk-other"]},
    }
    hidden = hide_secrets(config)
    assert "sk-" not in json.dumps(hidden)
    assert hidden["models"] == [{"path": "m", key: HIDDEN_SECRET}]


@pytest.mark.parametrize("name", ["ENV", "OPENAI_API_KEY", "HF_TOKEN"])
def test_names_of_environment_variables_stay(name):
    assert hide_secrets({"key": name, "token": name}) == {"key": name, "token": name}


@pytest.mark.parametrize("key", ["pad_token", "ice_token", "eos_token", "prefix_token", "keys"])
def test_settings_of_tokenizers_are_no_secrets(key):
    assert hide_secrets({key: "</s>"}) == {key: "</s>"}


def test_what_is_no_text_is_no_secret():
    config = {"key": None, "token": True, "api_key": ""}
    assert hide_secrets(config) == config


def test_the_provenance_of_predictions_holds_no_secret(tmp_path):
    with PredictionsFile(tmp_path / "d.json", ["a"]) as file:
        file.append({0: {"ppl": 1.0}})
        file.finish({"model": {"identity": {"model_kwargs": {"token": "hf_secret"}}}})
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"model_kwargs" in written
    assert b"hf_secret" not in written
