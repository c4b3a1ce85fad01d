"""Characters to tokens, against slow and obviously right ways."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from opencompass_ext.likelihood.encoding import TextEncoder
from opencompass_ext.likelihood.spans import (
    EncodedText,
    count_tokens,
    fill_empty_ranges,
    utf8_length,
)

TRAINING_TEXT = [
    "The answer is 42. The other answer is 7.",
    "答案是四十二。另一个答案是七。",
    "def f(x): return x + 1  # \U0001f600 ok",
    "cafe\u0301 caf\u00e9 nai\u0308ve",
]


def byte_level_tokenizer(trim_offsets):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim_offsets)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TRAINING_TEXT * 4, trainer)
    return tokenizer


TOKENIZERS = {trim: byte_level_tokenizer(trim) for trim in (True, False)}


def ranges_from_bytes(tokenizer, text):
    """Ranges of byte-level tokens without the tokenizer's offsets, from the bytes they hold."""
    byte_to_char = [i for i, c in enumerate(text) for _ in c.encode()]
    ranges, position = [], 0
    for token in tokenizer.encode(text, add_special_tokens=False).tokens:
        # Every character of a byte-level token stands for one byte.
        chars = byte_to_char[position : position + len(token)]
        ranges.append((chars[0], chars[-1] + 1))
        position += len(token)
    assert position == len(byte_to_char)
    return ranges


text_strategy = st.text(
    alphabet=st.one_of(
        st.sampled_from("The answ.  \n\t"),
        st.sampled_from("答案是四\U0001f600\U0001f468\u200d\U0001f469e\u0301\u0308"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
)


@st.composite
def text_and_spans(draw):
    text = draw(text_strategy)
    bound = st.integers(0, len(text))
    spans = draw(st.lists(st.tuples(bound, bound).map(sorted).map(tuple), max_size=4))
    return text, spans


@pytest.mark.parametrize("trim_offsets", [True, False])
@settings(max_examples=300, deadline=None)
@given(case=text_and_spans())
def test_counts_the_tokens_whose_characters_meet_a_span(trim_offsets, case):
    text, spans = case
    tokenizer = TOKENIZERS[trim_offsets]
    encoded = TextEncoder(tokenizer).encode([text])[0]
    ranges = ranges_from_bytes(tokenizer, text)
    labelled = {c for start, end in spans for c in range(start, end)}
    expected = [i for i, (start, end) in enumerate(ranges) if labelled & set(range(start, end))]

    counted = count_tokens(encoded, spans, len(text))

    assert counted.tokens.tolist() == expected
    assert counted.unaligned_chars == 0
    covered = {c for i in expected for c in range(*ranges[i])}
    expected_bytes = sum(len(text[c].encode()) for c in covered)
    assert utf8_length(text, encoded, counted.tokens) == expected_bytes


@settings(max_examples=200, deadline=None)
@given(case=text_and_spans(), cut=st.floats(0, 1))
def test_splitting_a_span_changes_nothing(case, cut):
    text, spans = case
    encoded = TextEncoder(TOKENIZERS[True]).encode([text])[0]
    split = []
    for start, end in spans:
        middle = start + int((end - start) * cut)
        split += [(start, middle), (middle, end)]
    whole = count_tokens(encoded, spans, len(text))
    parts = count_tokens(encoded, split, len(text))
    assert whole.tokens.tolist() == parts.tokens.tolist()


def test_an_emoji_span_counts_its_byte_tokens_and_no_neighbour():
    encoded = TextEncoder(TOKENIZERS[True]).encode(["x\U0001f600 ok"])[0]
    counted = count_tokens(encoded, [(1, 2)], text_length=5)
    owned = [(int(encoded.starts[t]), int(encoded.ends[t])) for t in counted.tokens]
    assert owned
    assert set(owned) == {(1, 2)}


def test_the_blank_before_a_word_belongs_to_the_word():
    encoded = TextEncoder(TOKENIZERS[True]).encode(["The answer"])[0]
    blank = count_tokens(encoded, [(3, 4)], text_length=10)
    assert blank.tokens.tolist() == [int(np.flatnonzero(encoded.ends > 3)[0])]
    assert blank.unaligned_chars == 0


def test_characters_that_no_token_owns_are_counted():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    encoded = TextEncoder(tokenizer).encode(["a   b"])[0]
    assert count_tokens(encoded, [(0, 5)], 5).unaligned_chars == 3
    assert count_tokens(encoded, [(2, 5)], 5).unaligned_chars == 2
    assert count_tokens(encoded, [(4, 5)], 5).unaligned_chars == 0


@pytest.mark.parametrize(
    ("starts", "ends", "expected"),
    [
        ([0, 3, 5], [3, 3, 7], [(0, 3), (3, 5), (5, 7)]),
        ([0, 0, 2], [0, 2, 2], [(0, 0), (0, 2), (2, 2)]),
        ([0, 1, 1, 4], [1, 1, 1, 6], [(0, 1), (1, 4), (1, 4), (4, 6)]),
        ([], [], []),
    ],
)
def test_empty_ranges_lie_between_their_neighbours(starts, ends, expected):
    filled = fill_empty_ranges(np.array(starts, dtype=int), np.array(ends, dtype=int))
    assert list(zip(*(column.tolist() for column in filled), strict=True)) == expected


def test_overlapping_spans_count_a_token_once():
    arange = np.arange(4)
    encoded = EncodedText(arange, arange, arange + 1)
    assert count_tokens(encoded, [(0, 3), (1, 4), (2, 2)], 4).tokens.tolist() == [0, 1, 2, 3]


def test_the_callers_tokenizer_is_neither_used_with_its_settings_nor_changed():
    tokenizer = byte_level_tokenizer(trim_offsets=True)
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(direction="left", length=8)
    before = tokenizer.to_str()
    encoded = TextEncoder(tokenizer).encode(["The answer is 42. The other answer"])[0]
    assert len(encoded.ids) > 3
    assert tokenizer.to_str() == before
