"""JSON that a schema allows, from logits that want something else."""

import importlib
import json
import sys

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from opencompass_ext.errors import ConfigError, MissingDependencyError
from opencompass_ext.models.constrained import SchemaProcessor

END = 2


@pytest.fixture(scope="module")
def tokenizer(smollm2_path):
    return AutoTokenizer.from_pretrained(smollm2_path)


def generate(tokenizer, schema, rows=1, seed=0, most=120):
    """Take the likeliest allowed token of random logits, until each row has ended."""
    vocab_size = len(tokenizer)
    processor = SchemaProcessor(tokenizer, vocab_size=vocab_size, end_ids=(END,), schema=schema)
    rng = np.random.default_rng(seed)
    ids = torch.full((rows, 3), 7)
    for _ in range(most):
        logits = torch.from_numpy(rng.normal(size=(rows, vocab_size)).astype(np.float32))
        token = processor(ids, logits).argmax(-1)
        ids = torch.cat([ids, token[:, None]], dim=1)
        if (ids[:, -1] == END).all():
            break
    new = [row[: row.index(END)] if END in row else row for row in ids[:, 3:].tolist()]
    return [tokenizer.decode(row) for row in new]


VERDICTS = {
    "type": "array",
    "minItems": 2,
    "maxItems": 2,
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1, "maximum": 99},
            "verdict": {"enum": ["yes", "no"]},
        },
        "required": ["id", "verdict"],
        "additionalProperties": False,
    },
}


def test_random_logits_give_json_of_the_schema_in_every_row(tokenizer):
    for text in generate(tokenizer, VERDICTS, rows=5):
        verdicts = json.loads(text)
        assert len(verdicts) == 2
        assert all(v["verdict"] in ("yes", "no") and 1 <= v["id"] <= 99 for v in verdicts)
        assert " " not in text.replace('": ', '":').replace(", ", ",")


def test_rows_that_end_early_end_while_others_go_on(tokenizer):
    schema = {"enum": ["no", "a much longer value than the other one"]}
    texts = {text for seed in range(8) for text in generate(tokenizer, schema, rows=4, seed=seed)}
    assert texts == {'"no"', '"a much longer value than the other one"'}


def test_a_schema_that_cannot_be_enforced_is_refused(tokenizer):
    with pytest.raises(ConfigError, match="json_schema cannot be enforced"):
        generate(tokenizer, {"type": "array", "uniqueItems": True})


def test_a_token_that_was_not_allowed_is_noticed(tokenizer):
    processor = SchemaProcessor(
        tokenizer, vocab_size=len(tokenizer), end_ids=(END,), schema={"enum": ["yes"]}
    )
    logits = torch.zeros(1, len(tokenizer))
    ids = torch.full((1, 3), 7)
    processor(ids, logits)
    with pytest.raises(ConfigError, match="generation_kwargs"):
        processor(torch.cat([ids, ids[:, :1]], dim=1), logits)


def test_a_model_without_an_end_is_refused(tokenizer):
    with pytest.raises(ConfigError, match="ends an answer"):
        SchemaProcessor(tokenizer, vocab_size=9, end_ids=(), schema={})


def test_a_missing_package_is_named_with_the_command_that_brings_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "opencompass_ext.models.constrained")
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(MissingDependencyError, match=r"'llguidance'.*opencompass_ext\[judge\]"):
        importlib.import_module("opencompass_ext.models.constrained")
