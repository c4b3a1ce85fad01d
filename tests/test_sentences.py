"""Sentences of any language, and nothing dropped between them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opencompass_ext.sentences import sentence_spans, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He left! Did he? Yes.", ["He left!", "Did he?", "Yes."]),
        ("他来自北京。他喜欢茶!", ["他来自北京。", "他喜欢茶!"]),
        ("यह एक वाक्य है। यह दूसरा है।", ["यह एक वाक्य है।", "यह दूसरा है।"]),
        ("هذا نص. هل هذا سؤال؟ نعم.", ["هذا نص.", "هل هذا سؤال؟", "نعم."]),
        ("これはペンです。あれは本です。", ["これはペンです。", "あれは本です。"]),
        ("ผมชอบกาแฟ เขาชอบชา", ["ผมชอบกาแฟ เขาชอบชา"]),
        ("First line\n- one\n- two", ["First line", "- one", "- two"]),
        ("42", ["42"]),
        ("It is 42. 43.", ["It is 42. 43."]),
        ("no end", ["no end"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_texts_are_cut_where_their_script_ends_a_sentence(text, sentences):
    assert split_sentences(text) == sentences


def test_a_language_adds_its_abbreviations():
    text = "To jest zdanie. To drugie, np. takie."
    assert split_sentences(text, "pl") == ["To jest zdanie.", "To drugie, np. takie."]


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=60), st.sampled_from(["en", "zh", "hi", "xx"]))
def test_nothing_but_blanks_lies_between_sentences(text, language):
    end_before = 0
    for start, end in sentence_spans(text, language):
        assert not text[end_before:start].strip()
        assert text[start:end] == text[start:end].strip() != ""
        end_before = end
    assert not text[end_before:].strip()
