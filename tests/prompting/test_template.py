"""Prompts hold the columns verbatim, and say where they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.prompting import PromptTemplate


def places(rendered, column):
    return [rendered.text[p.start : p.end] for p in rendered.places_of(column)]


@given(st.text(), st.text())
def test_inserted_text_stands_where_it_is_said_to(question, answer):
    rendered = PromptTemplate("Q: {q}\nA: {a} ({q})").render({"q": question, "a": answer})
    assert rendered.text == "Q: " + question + "\nA: " + answer + " (" + question + ")"
    assert places(rendered, "q") == [question, question]
    assert places(rendered, "a") == [answer]


@pytest.mark.parametrize(
    "text", ["{label}", "{text}", "{", "}{", "{{text}}", r"\frac{1}{2}", "</E>"]
)
def test_a_text_that_looks_like_a_template_is_left_alone(text):
    template = PromptTemplate("</E>[{text}]", ice_token="</E>")
    rendered = template.render({"text": text, "label": "X"}, ice="shots ")
    assert rendered.text == f"shots [{text}]"
    assert places(rendered, "text") == [text]


def test_braces_around_no_column_are_text_with_one_warning(caplog):
    template = PromptTemplate(r"{question} \frac{1}{x} {}")
    for _ in range(3):
        assert template.render({"question": "q"}).text == r"q \frac{1}{x} {}"
    assert [record.args[1] for record in caplog.records] == ["1", "x"]


@pytest.mark.parametrize("field", ["anser", "answr", "Answer", "answers"])
def test_a_misspelt_column_is_refused(field):
    with pytest.raises(ConfigError, match=rf"inserts \{{{field}\}}.*'question', 'answer'"):
        PromptTemplate("{question} {" + field + "}").render({"question": "q", "answer": "a"})


def test_braces_in_the_data_are_no_fields(caplog):
    PromptTemplate("{a}").render({"a": "{nothing} {aa}"})
    assert not caplog.records


def test_numbers_are_written_out():
    assert PromptTemplate("{n} {x}").render({"n": 3, "x": 0.5}).text == "3 0.5"


@pytest.mark.parametrize("value", [None, ["a"], {"a": 1}])
def test_other_values_are_refused_by_name(value):
    with pytest.raises(DataError, match="column 'a'"):
        PromptTemplate("{a}").render({"a": value})


def test_a_column_the_template_does_not_use_may_hold_anything():
    assert PromptTemplate("{a}").render({"a": "x", "b": None}).text == "x"


DIALOGUE = dict(
    begin="Read this.",
    round=[dict(role="HUMAN", prompt="{q}"), dict(role="BOT", prompt="{a}")],
)
META = dict(
    begin="<s>",
    round=[dict(role="HUMAN", begin="[U]", end="\n"), dict(role="BOT", begin="[A]", end="</s>")],
    end="!",
)


def test_a_dialogue_without_markers_is_joined_by_line_breaks():
    rendered = PromptTemplate(DIALOGUE).render({"q": "1+1?", "a": "2"})
    assert rendered.text == "Read this.\n1+1?\n2"
    assert places(rendered, "a") == ["2"]


def test_a_dialogue_is_dressed_in_the_models_markers():
    rendered = PromptTemplate(DIALOGUE).render({"q": "1+1?", "a": "2"}, meta_template=META)
    assert rendered.text == "<s>Read this.[U]1+1?\n[A]2</s>!"
    assert places(rendered, "a") == ["2"]


def test_a_role_without_markers_is_named():
    with pytest.raises(ConfigError, match=r"'SYSTEM'.*BOT.*HUMAN"):
        PromptTemplate(dict(round=[dict(role="SYSTEM", prompt="x")])).render({}, meta_template=META)


def test_a_fallback_role_is_used():
    template = PromptTemplate(dict(round=[dict(role="X", fallback_role="HUMAN", prompt="x")]))
    assert template.render({}, meta_template=META).text == "<s>[U]x\n!"


@pytest.mark.parametrize("template", [{"A": "x", "B": "y"}, 3, None, {"round": [], "rounds": []}])
def test_other_templates_are_refused(template):
    with pytest.raises(ConfigError):
        PromptTemplate(template)


def test_examples_without_a_place_are_refused():
    with pytest.raises(ConfigError, match="ice_token"):
        PromptTemplate("{a}").render({"a": "x"}, ice="shots")


def test_the_token_for_examples_vanishes_without_examples():
    assert PromptTemplate("</E>{a}", ice_token="</E>").render({"a": "x"}).text == "x"


def test_a_dialogue_as_messages_of_a_chat():
    template = PromptTemplate(
        dict(
            begin=["Examples: </E>\n"],
            round=[
                dict(role="HUMAN", prompt="{q}"),
                dict(role="BOT", prompt="{a}"),
                dict(role="TOOL", prompt="{{q}}"),
                dict(role="BOT", prompt=""),
            ],
        ),
        ice_token="</E>",
    )
    assert template.messages({"q": "{a}", "a": 2}, ice="e") == (
        {"role": "user", "content": "Examples: e\n{a}"},
        {"role": "assistant", "content": "2"},
        {"role": "tool", "content": "{{a}}"},
    )


def test_examples_without_a_place_in_a_chat_are_refused():
    template = PromptTemplate(dict(round=[dict(role="HUMAN", prompt="{q}")]), ice_token="</E>")
    with pytest.raises(ConfigError, match="have no place in the template"):
        template.messages({"q": "x"}, ice="e")
