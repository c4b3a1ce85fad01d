import math

import numpy as np
import pytest

from opencompass_ext.errors import ModelError
from opencompass_ext.models.completions_reply import read_reply

WORDS = ["The", " cat", " sat", "é", "<s>"]
PROMPT = np.array([0, 1, 2])


def read(reply, prompts=(PROMPT,), max_tokens=0):
    return read_reply(reply, prompts, max_tokens=max_tokens, token_text=WORDS.__getitem__)


def choice(values, tokens=None, index=0):
    logprobs = {"token_logprobs": values}
    if tokens is not None:
        logprobs["tokens"] = tokens
    return {"index": index, "text": "", "logprobs": logprobs}


def reply(*choices):
    return {"object": "text_completion", "choices": list(choices)}


def test_choices_are_matched_by_index():
    second, first = choice([None, -2.0], index=1), choice([None, -1.0, -0.5], index=0)
    rows = read(reply(second, first), [PROMPT, np.array([1, 2])])
    assert [row[1:].tolist() for row in rows] == [[-1.0, -0.5], [-2.0]]


def test_the_generated_token_is_left_out():
    (row,) = read(reply(choice([None, -1.0, -0.5, -9.0])), max_tokens=1)
    assert row[1:].tolist() == [-1.0, -0.5]


def test_null_is_no_number_and_the_stand_in_for_minus_infinity_is_infinite():
    (row,) = read(reply(choice([None, None, -9999.0])))
    assert math.isnan(row[1])
    assert row[2] == -math.inf


@pytest.mark.parametrize(
    "tokens",
    [
        ["The", " cat", " sat"],
        ["The", "Ġcat", "▁sat"],
        ["token_id:0", "token_id:1", "token_id:2"],
        ["", "", ""],
        None,
    ],
)
def test_spellings_of_the_same_tokens_are_accepted(tokens):
    assert read(reply(choice([None, -1.0, -2.0], tokens)))[0][2] == -2.0


@pytest.mark.parametrize("tokens", [["<0xC3>", "x"], ["\ufffd", "x"], ["bytes:\\xc3", "x"]])
def test_tokens_that_servers_spell_in_their_own_ways_are_accepted(tokens):
    assert read(reply(choice([None, -1.0], tokens)), [np.array([3, 4])])[0][1] == -1.0


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["The", " dog", " sat"], r"token 1 of a prompt was sent as id 1 \(' cat'.*came back as"),
        (["token_id:0", "token_id:9", "token_id:2"], "came back as 'token_id:9'"),
        (["BOS", "The", " cat"], "another tokenizer"),
    ],
)
def test_another_vocabulary_is_noticed(tokens, message):
    with pytest.raises(ModelError, match=message):
        read(reply(choice([None, -1.0, -2.0], tokens)))


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {"content": [{"token": " on", "logprob": -0.1}]},  # llama.cpp's server
        {"token_logprobs": [-0.1], "tokens": [" on"]},
        {"token_logprobs": []},
    ],
)
def test_an_endpoint_that_does_not_echo_is_named_as_such(logprobs):
    with pytest.raises(ModelError, match=r"no log-probabilities of prompt tokens.*HuggingFaceBase"):
        read(reply({"index": 0, "text": " on", "logprobs": logprobs}), max_tokens=1)


@pytest.mark.parametrize(
    ("values", "max_tokens", "message"),
    [
        ([None, -1.0], 0, r"expected 3 log-probabilities \(3 ids sent, 0 to be gen.*got 2"),
        ([None, -1.0, -2.0, -3.0], 0, "got 4: either the server generates.*set max_tokens=1"),
        ([None, -1.0, -2.0], 1, "got 3: if the server generates no token, set max_tokens=0"),
        ([None, -1.0, -2.0, -3.0, -4.0], 1, "got 5: the server does not read the ids"),
        ([-3.0, -1.0, -2.0], 0, "first token.*-3.0, expected null: .*a token of its own before"),
        ([None, "-1.0", -2.0], 0, r"token_logprobs\[1\] must be a number or null, got '-1.0'"),
        ([None, True, -2.0], 0, "must be a number or null, got True"),
    ],
)
def test_numbers_that_cannot_be_the_tokens_sent(values, max_tokens, message):
    with pytest.raises(ModelError, match=message):
        read(reply(choice(values)), max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], "expected a JSON object with the list 'choices', got a list"),
        ({"id": 1}, r"got an object with the keys \['id'\]"),
        (reply(), "one choice for each of 1 prompts.*got 0"),
        (reply(choice([None, -1.0, -2.0], index=1)), r"'index' 0 to 0, got 1 with \[1\]"),
        (reply(choice([None]), choice([None])), r"got 2 with \[0, 0\].*batch_prompts=1"),
    ],
)
def test_what_is_no_reply_to_these_prompts(answer, message):
    with pytest.raises(ModelError, match=message):
        read(answer)
