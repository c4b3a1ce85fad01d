import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.config import dump_config, format_config, load_config

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


def test_secrets_are_left_out_also_those_of_what_the_config_was_made_from():
    config = {"models": [{"api_key": "sk-1", "headers": ["sk-2"]}]}
    text = format_config(config, secrets_of={"my": {"token": "sk-2"}})
    assert "sk-" not in text
    assert "sk-2" in format_config(config)
