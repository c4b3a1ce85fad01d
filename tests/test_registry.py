import subprocess
import sys

import pytest

from opencompass_ext import registry
from opencompass_ext.errors import ConfigError
from opencompass_ext.models import ScriptedModel
from opencompass_ext.registry import MODELS, PARTITIONERS, Registry


@pytest.fixture
def animals():
    return Registry("animal", package="opencompass_ext.metrics")


def test_a_class_is_found_by_its_name_and_by_itself(animals):
    @animals.register_module()
    class Cat:
        pass

    assert animals.get("Cat") is Cat
    assert animals.get(Cat) is Cat
    assert animals.names() == ["Cat"]


def test_a_class_can_have_other_names(animals):
    @animals.register_module(name=["Cat", "Felis"])
    class Anything:
        pass

    assert animals.get("Felis") is animals.get("Cat") is Anything


@pytest.mark.parametrize("force", [False, True])
def test_a_name_is_given_once(animals, force):
    animals.register_module(name="Cat", module=ScriptedModel)
    with pytest.raises(ValueError, match=r"the animal name 'Cat' is taken by .*ScriptedModel"):
        animals.register_module(name="Cat", module=Registry, force=force)
    assert animals.get("Cat") is ScriptedModel


@pytest.mark.parametrize(
    "name",
    [
        "ScriptedModel",
        "opencompass.models.ScriptedModel",
        "opencompass.models.some.older.place.ScriptedModel",
        "opencompass_ext.models.ScriptedModel",
    ],
)
def test_dotted_names_of_opencompass_are_found_by_their_last_part(name):
    assert MODELS.get(name) is ScriptedModel


def test_an_unknown_name_is_answered_with_near_names():
    with pytest.raises(ConfigError, match=r"unknown model type 'ScriptedModl': did you mean 'Scri"):
        MODELS.get("ScriptedModl")
    with pytest.raises(ConfigError, match=r"'opencompass\.models\.Llama2': known names: .*Script"):
        MODELS.get("opencompass.models.Llama2")


@pytest.mark.parametrize("key", [3, None, {"type": "x"}])
def test_what_is_no_name_is_told(key):
    with pytest.raises(ConfigError, match="a model type must be a class or its name, got"):
        MODELS.get(key)


def test_build_gives_the_other_keys_as_arguments_and_wins_over_extras():
    model = MODELS.build({"type": "ScriptedModel", "vocab_size": 8}, vocab_size=2, path="p")
    assert (model.vocab_size, model.path) == (8, "p")


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({"path": "x"}, r"a model config needs the key 'type', got keys \['path'\]"),
        (
            {"type": "ScriptedModel", "pth": 1},
            r"the model ScriptedModel: got an unexpected .*'pth'",
        ),
    ],
)
def test_build_says_what_is_wrong(cfg, message):
    with pytest.raises(ConfigError, match=message):
        MODELS.build(cfg)


def test_building_leaves_the_config_as_it_is():
    cfg = {"type": "NaivePartitioner", "n": 2}
    PARTITIONERS.build(cfg)
    assert cfg == {"type": "NaivePartitioner", "n": 2}


def test_every_registry_fills_itself_and_loads_nothing_heavy():
    code = (
        "import sys; from opencompass_ext import registry as r\n"
        "for x in [x for x in vars(r).values() if isinstance(x, r.Registry)]: assert x.names(), x\n"
        "print([m for m in ('torch', 'transformers', 'datasets', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_registered_classes_say_what_they_are():
    for r in [r for r in vars(registry).values() if isinstance(r, Registry)]:
        for name in r.names():
            assert r.get(name).__doc__, f"{name} has no docstring, which 'list types' shows"
