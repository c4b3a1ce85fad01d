import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.config import HIDDEN_SECRET, format_config, hide_secrets, load_config
from opencompass_ext.config.dump import dump_config

_names = st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(
    lambda name: name not in {"key", "token", "secret", "password"}
)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    return tmp_path_factory.mktemp("dump") / "dumped.py"


@given(value=_values)
def test_any_data_loads_back_equal_and_of_the_same_type(dumped, value):
    dump_config({"value": value}, dumped)
    reloaded = load_config(dumped)["value"]
    assert reloaded == value
    assert repr(reloaded) == repr(value)


@pytest.mark.parametrize(
    "key", ["key", "api_key", "openai_api_key", "token", "hf_token", "password", "Authorization"]
)
def test_literal_secrets_are_hidden_wherever_they_stand(key):
    config = {
        "models": [{"path": "m", key: "sk-very-secret"}],
        "helper": "sk-very-secret",
        "keys": {"key": ["sk-very-secret", "sk-other"]},
    }
    text = format_config(config)
    assert "sk-" not in text
    assert hide_secrets(config)["models"] == [{"path": "m", key: HIDDEN_SECRET}]


@pytest.mark.parametrize("name", ["ENV", "OPENAI_API_KEY", "HF_TOKEN"])
def test_names_of_environment_variables_stay(name):
    assert hide_secrets({"key": name, "token": name}) == {"key": name, "token": name}


@pytest.mark.parametrize("key", ["pad_token", "ice_token", "eos_token", "prefix_token", "keys"])
def test_settings_of_tokenizers_are_no_secrets(key):
    assert hide_secrets({key: "</s>"}) == {key: "</s>"}


def test_what_is_no_text_is_no_secret():
    config = {"key": None, "token": True, "api_key": ""}
    assert hide_secrets(config) == config
