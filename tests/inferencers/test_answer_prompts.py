import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.inferencers.answer_prompts import (
    GEVAL_CRITERIA,
    Asked,
    end_with,
    followed_by,
    geval_form,
    gptscore_request,
    put_before,
    put_into_chat,
    with_scores,
)

QUESTION = Asked("Why?", ((0, 4),))


def counted(asked):
    return [asked.text[start:end] for start, end in asked.question]


def test_context_is_not_part_of_the_question():
    asked = put_before(["Be brief.", "Source."], QUESTION)
    assert asked.text == "Be brief.\n\nSource.\n\nWhy?"
    assert counted(asked) == ["Why?"]


def test_the_separator_is_part_of_the_question():
    assert counted(end_with("\n", QUESTION)) == ["Why?", "\n"]
    assert end_with("", QUESTION) == QUESTION


def chat(turns):
    return f"<user> {turns[0]['content'].strip()} </user><assistant>"


@pytest.mark.parametrize("text", ["Why?", " Why?\n", "user", "<user> user"])
def test_the_question_is_found_in_a_chat(text):
    asked = put_into_chat(chat, Asked(text, ((0, len(text)),)))
    assert asked.text == chat([{"content": text}])
    assert counted(asked) == [text.strip()]


def test_what_stands_before_the_question_in_a_turn_is_not_counted():
    asked = put_into_chat(chat, put_before(["  Be brief."], QUESTION))
    assert asked.text == "<user> Be brief.\n\nWhy? </user><assistant>"
    assert counted(asked) == ["Why?"]


def test_a_template_that_rewrites_the_question_is_refused():
    with pytest.raises(ConfigError, match=r"'Why.*chat_template=False"):
        put_into_chat(lambda turns: turns[0]["content"].upper(), QUESTION)


def test_question_and_answer_are_cut_apart_or_joined():
    apart = followed_by(QUESTION, "So.", joint_tokenization=False, names=("q", "a"))
    assert (apart.spans, apart.cuts) == ({"q": ((0, 4),), "a": ((4, 7),)}, (4,))
    joined = followed_by(QUESTION, "So.", joint_tokenization=True, names=("qa", "a"))
    assert (joined.spans, joined.cuts) == ({"qa": ((0, 4), (4, 7)), "a": ((4, 7),)}, ())


def test_a_gptscore_request_holds_the_question_verbatim():
    asked = gptscore_request("Answer {well}.", Asked("Why {answer}?", ((0, 13),)))
    assert asked.text == "Answer {well}.\n\nQuestion: Why {answer}?"
    assert counted(asked) == ["Why {answer}?"]


def test_a_geval_form_holds_criteria_question_and_answer_and_ends_with_each_score():
    form = geval_form(GEVAL_CRITERIA, QUESTION, "So {question}.", scale=3)
    assert counted(form) == ["Why?"]
    assert form.text.startswith(GEVAL_CRITERIA)
    assert "Answer:\nSo {question}.\n" in form.text
    assert "to 3" in form.text
    texts = with_scores(form.text + "\nScore:", 3)
    for score in "123":
        (start, end), *_ = texts[score].spans["score"]
        assert texts[score].text[start:end] == f" {score}"
        assert texts[score].text[:start] == form.text + "\nScore:"
