"""Which model a judge asks: by the config or by the environment."""

import pytest

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.judging import EndpointJudge

URL = "http://localhost:8000/v1"


def test_the_model_may_be_named_by_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_MODEL", "from-outside")
    assert EndpointJudge(url=URL).identity()["model"] == "from-outside"
    assert EndpointJudge(url=URL, model="from-config").identity()["model"] == "from-config"


def test_without_a_name_the_variables_are_told(monkeypatch):
    monkeypatch.delenv("OPENAI_MODEL", raising=False)
    with pytest.raises(ModelError) as caught:
        EndpointJudge()
    assert "set the environment variable OPENAI_MODEL, or model in the config" in str(caught.value)
    assert "OPENAI_BASE_URL" in str(caught.value)
    with pytest.raises(ConfigError, match="model must be the name a model is served under"):
        EndpointJudge(url=URL, model=" ")


@pytest.mark.parametrize("url", [" http://host/v1", "http://host/v1\n", "http://host:99999/v1"])
def test_an_address_that_cannot_be_is_refused(url):
    with pytest.raises(ConfigError, match="url"):
        EndpointJudge("m", url=url)
