"""In-context examples are the rows asked for, in their order."""

from types import SimpleNamespace

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.prompting import FixKRetriever, PromptTemplate, ZeroRetriever

DATASET = SimpleNamespace(train=[{"q": "a"}, {"q": "b"}, {"q": "c"}], test=[{"q": "x"}, {"q": "y"}])
TEMPLATE = PromptTemplate("Q: {q}")


def test_zero_retriever_gives_no_examples():
    retriever = ZeroRetriever(DATASET)
    assert retriever.retrieve() == [[], []]
    assert retriever.generate_ice([], None) == ""


def test_fixed_examples_come_in_the_order_asked_for():
    retriever = FixKRetriever(DATASET, fix_id_list=[2, 0], ice_separator=" | ", ice_eos_token=" ||")
    assert retriever.retrieve() == [[2, 0], [2, 0]]
    assert retriever.generate_ice([2, 0], TEMPLATE) == "Q: c | Q: a ||"


@pytest.mark.parametrize("numbers", [[3], [-1], [0, 7]])
def test_a_number_outside_the_split_is_refused(numbers):
    with pytest.raises(ConfigError, match="rows 0 to 2"):
        FixKRetriever(DATASET, fix_id_list=numbers)


def test_an_index_split_without_rows_is_named():
    dataset = SimpleNamespace(train=[], test=DATASET.test)
    with pytest.raises(ConfigError, match="the index split has no rows"):
        FixKRetriever(dataset, fix_id_list=[0])


def test_examples_without_a_template_are_refused():
    with pytest.raises(ConfigError, match="ice_template"):
        FixKRetriever(DATASET, fix_id_list=[0]).generate_ice([0], None)
