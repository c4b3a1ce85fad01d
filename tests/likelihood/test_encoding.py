"""Texts that are cut for the tokenizer."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from opencompass_ext.errors import DataError
from opencompass_ext.likelihood.encoding import TextEncoder, encode_parts
from opencompass_ext.records import LabelledText


@pytest.fixture(scope="module")
def encoder():
    letters = sorted(set("Why is the sky blue?\nBecause of scattering: 光 bends. a few words ab"))
    vocabulary = {letter: i for i, letter in enumerate([*letters, "ab", "?\n", "\nB", "rd"])}
    merges = [("a", "b"), ("\n", "B"), ("?", "\n"), ("r", "d")]
    return TextEncoder(Tokenizer(models.BPE(vocabulary, merges)))


def test_no_token_reaches_over_a_cut(encoder):
    together, apart = encode_parts(
        encoder.encode, [LabelledText("ab", {}), LabelledText("ab", {}, cuts=(1,))]
    )
    assert together.ends.tolist() == [2]
    assert apart.ends.tolist() == [1, 2]


def test_parts_have_the_ids_they_have_alone_and_ranges_of_the_whole_text(encoder):
    question, answer = "Why is the sky blue?\n", "Because of scattering: 光 bends."
    joined = encode_parts(
        encoder.encode, [LabelledText(question + answer, {}, cuts=(len(question),))]
    )[0]
    alone = encoder.encode([question, answer])
    assert joined.ids.tolist() == [*alone[0].ids, *alone[1].ids]
    assert joined.starts.tolist() == [*alone[0].starts, *(alone[1].starts + len(question))]
    assert joined.ends.tolist() == [*alone[0].ends, *(alone[1].ends + len(question))]


def test_without_cuts_nothing_changes(encoder):
    plain, parts = encoder.encode(["a few words"]), [LabelledText("a few words", {})]
    assert np.array_equal(encode_parts(encoder.encode, parts)[0].ids, plain[0].ids)


def test_a_cut_at_either_end_adds_an_empty_part(encoder):
    text = LabelledText("words", {}, cuts=(0, 5))
    assert encode_parts(encoder.encode, [text])[0].ids.tolist() == (
        encoder.encode(["words"])[0].ids.tolist()
    )


@pytest.mark.parametrize("cuts", [(6,), (-1,), (3, 2), (1.0,), (True,)])
def test_a_cut_that_is_no_offset_of_the_text_is_refused(cuts):
    with pytest.raises(DataError, match="whole numbers 0 <= start <= end <= 5"):
        LabelledText("words", {}, cuts=cuts)
