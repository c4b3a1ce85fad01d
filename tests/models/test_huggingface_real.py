"""Real weights, two tokenizer families, awkward texts: equal to a row alone with full logits."""

import re

import pytest
import torch
from support.reference import close, span_nll
from transformers import AutoModelForCausalLM, AutoTokenizer

from opencompass_ext.models import HuggingFaceBaseModel
from opencompass_ext.records import LabelledText

TEXTS = {
    "english": "The quick brown fox jumps over the lazy dog, and the answer is 42.",
    "chinese": "问题：停车场里有4辆小轿车，又开来3辆，一共有多少辆？\n答案：7辆。",
    "emoji": "x\U0001f600 ok \U0001f468\u200d\U0001f469\u200d\U0001f467 fine \u2764\ufe0f.",
    "code": "def add(a, b):\n    return a + b  # {sum}\n\n\tassert add(1, 2) == 3\n",
    "combining": "cafe\u0301 nai\u0308ve \u0e01\u0e33 \u0939\u093f\u0928\u094d\u0926 A\u0328\u0301",
    "blanks": "a   b\n\n\n   c\t\td ",
    "one character": "a",
    "digits": "In 1999 it was 3.14159 and 10,000.",
}


def token_bytes(token):
    """The bytes a token of either family stands for."""
    if re.fullmatch(r"<0x[0-9A-F]{2}>", token):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()


def byte_level_bytes(token):
    """The bytes of a token of byte-level BPE: each of its characters stands for one byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    alphabet = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
    return bytes(alphabet[c] for c in token)


def ranges_by_bytes(tokens, text, to_bytes):
    """Character ranges without the tokenizer's offsets, from the bytes each token stands for."""
    char_of_byte = [i for i, c in enumerate(text) for _ in c.encode()]
    ranges, position = [], 0
    for token in tokens:
        length = len(to_bytes(token))
        chars = char_of_byte[position : position + length]
        ranges.append((chars[0], chars[-1] + 1))
        position += length
    assert position == len(char_of_byte), "the tokens do not add up to the text"
    return ranges


def thirds(text):
    """Overlapping and touching spans that begin and end in the middle of words and characters."""
    third = len(text) // 3
    return ((third, 2 * third + 1), (2 * third, len(text)), (third, third + 1))


class Case:
    """A model of ours and the same one the plain way."""

    def __init__(self, path, to_bytes, prefix):
        self.ours = HuggingFaceBaseModel(path=str(path), max_batch_tokens=256)
        self.plain = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.to_bytes = to_bytes
        self.prefix = prefix

    def expect(self, labelled):
        """(NLL, counted tokens) of the spans named "label"."""
        ids = self.tokenizer(labelled.text, add_special_tokens=False)["input_ids"]
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        ranges = ranges_by_bytes(tokens, labelled.text, self.to_bytes)
        return span_nll(self.plain, ids, ranges, labelled.spans["label"], self.prefix)


@pytest.fixture(scope="module")
def smollm2(smollm2_path):
    return Case(smollm2_path, byte_level_bytes, prefix=())


@pytest.fixture(scope="module")
def gemma3(gemma3_path):
    return Case(gemma3_path, token_bytes, prefix=(2,))


@pytest.mark.parametrize("family", ["smollm2", "gemma3"])
def test_equals_a_row_alone(family, request):
    case = request.getfixturevalue(family)
    texts = [LabelledText(text, {"label": thirds(text)}) for text in TEXTS.values()]
    texts += [LabelledText(text, {"label": ((0, len(text)),)}) for text in TEXTS.values()]
    scored = case.ours.score_all(texts)
    for labelled, got in zip(texts, scored, strict=True):
        nll, token_len = case.expect(labelled)
        assert got.spans["label"].token_len == token_len, labelled.text
        assert close(got.spans["label"].nll, nll), labelled.text
        assert got.spans["label"].unaligned_chars == 0


def test_a_written_end_token_counts_although_it_is_the_padding_token(smollm2):
    end = smollm2.tokenizer.eos_token
    assert smollm2.tokenizer.pad_token_id == smollm2.tokenizer.eos_token_id
    text = f"ab{end}cd"
    texts = [LabelledText(text, {"label": ((0, len(text)),), "end": ((2, 2 + len(end)),)})]
    texts.append(LabelledText(TEXTS["english"], {"label": ((0, 60),)}))
    scored = smollm2.ours.score_all(texts)[0]
    ids = smollm2.tokenizer(text)["input_ids"]
    place = ids.index(smollm2.tokenizer.eos_token_id)
    nll, token_len = span_nll(
        smollm2.plain, ids, [(i, i + 1) for i in range(len(ids))], [(place, place + 1)]
    )
    assert scored.spans["end"].token_len == token_len == 1
    assert scored.spans["end"].nll > 0
    assert close(scored.spans["end"].nll, nll)


def test_a_literal_bos_is_not_put_there_twice(gemma3):
    bos = gemma3.tokenizer.bos_token
    written = LabelledText(bos + "Hello there", {"label": ((len(bos), len(bos) + 11),)})
    plain = LabelledText("Hello there", {"label": ((0, 11),)})
    first, second = gemma3.ours.score_all([written, plain])
    assert first.spans["label"].token_len == second.spans["label"].token_len
    assert close(first.spans["label"].nll, second.spans["label"].nll)


def test_the_rule_for_the_first_token_is_recorded(smollm2, gemma3):
    assert smollm2.ours.provenance()["prefix_ids"] == []
    assert gemma3.ours.provenance()["prefix_ids"] == [2]
