import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from support.reference import close

from opencompass_ext.errors import ConfigError, MissingDependencyError, ModelError
from opencompass_ext.likelihood.pieces import Piece
from opencompass_ext.models import HuggingFaceBaseModel, VLLMModel
from opencompass_ext.models.vllm_backend import read_prompt_logprobs
from opencompass_ext.records import LabelledText


@dataclass
class Logprob:
    """The fields of vllm.logprobs.Logprob."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


# What vLLM 0.32 answered to the beginning of "The cat sat on the mat." with prompt_logprobs=2.
IDS = np.array([504, 2644, 2643, 335])
ANSWER = [
    None,
    {2644: Logprob(-13.988735, 11909), 29: Logprob(-0.865483, 1), 28: Logprob(-2.653241, 2)},
    {2643: Logprob(-9.010260, 470), 506: Logprob(-1.501549, 1), 314: Logprob(-1.742054, 2)},
    {335: Logprob(-1.095298, 1), 418: Logprob(-1.201471, 2)},
]


def test_recorded_prompt_logprobs_become_columns():
    scores = read_prompt_logprobs(ANSWER, Piece(IDS, np.array([1, 3])), top_k=2)
    assert scores.nll.tolist() == [13.988735, 1.095298]
    assert scores.rank.tolist() == [11909, 1]
    assert scores.top_ids.tolist() == [[29, 28], [335, 418]]
    assert scores.top_nll.tolist() == [[0.865483, 2.653241], [1.095298, 1.201471]]


def test_without_alternatives_there_are_only_nlls():
    answer = [entry and {next(iter(entry)): next(iter(entry.values()))} for entry in ANSWER]
    scores = read_prompt_logprobs(answer, Piece(IDS, np.array([2])), top_k=0)
    assert scores.nll.tolist() == [9.010260]
    assert scores[1:] == (None, None, None)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "expected vLLM's prompt_logprobs of 4 tokens, got none"),
        (ANSWER[:3], "of 4 tokens, got 3: .*enable_prefix_caching=False"),
        ([*ANSWER[:3], None], "lack the prompt's own token 335 at position 3"),
        ([*ANSWER[:3], ANSWER[1]], "lack the prompt's own token 335 at position 3"),
    ],
)
def test_what_cannot_be_the_answer_to_the_prompt(answer, message):
    with pytest.raises(ModelError, match=message):
        read_prompt_logprobs(answer, Piece(IDS, np.array([3])), top_k=0)


class FakeLLM:
    """vllm.LLM as far as it is used, with the numbers of transformers, a prompt at a time."""

    def __init__(self, model, tokenizer, max_model_len=33):
        if max_model_len > 160:
            raise ValueError("max_model_len\nis more than 160")
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model).eval()
        config = SimpleNamespace(max_model_len=max_model_len, dtype=torch.float32)
        self.llm_engine = SimpleNamespace(model_config=config)
        self.calls = []

    def generate(self, prompts, sampling, use_tqdm):
        self.calls.append([prompt["prompt_token_ids"] for prompt in prompts])
        assert not use_tqdm
        assert sampling.max_tokens == 1
        return [self.read(ids, sampling.prompt_logprobs) for ids in self.calls[-1]]

    def read(self, ids, top_k):
        if len(ids) + 1 > self.llm_engine.model_config.max_model_len:
            raise ValueError(f"prompt of {len(ids)} tokens is too long")
        with torch.inference_mode():
            logprobs = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        answer = [None]
        for row, token in zip(logprobs[:-1], ids[1:], strict=True):
            ranks = {int(i): rank for rank, i in enumerate(row.topk(top_k).indices, start=1)}
            rank = int((row >= row[token]).sum())
            answer.append({i: Logprob(float(row[i]), r) for i, r in {token: rank, **ranks}.items()})
        return SimpleNamespace(prompt_logprobs=answer)


@pytest.fixture
def fake_vllm(monkeypatch):
    module = ModuleType("vllm")
    module.LLM, module.SamplingParams, module.__version__ = FakeLLM, SimpleNamespace, "0"
    monkeypatch.setitem(sys.modules, "vllm", module)


TEXTS = [
    LabelledText("the cat sat on the mat", {"cat": ((4, 7),), "rest": ((8, 15), (19, 22))}),
    LabelledText("你好😀 naïve café", {"all": ((0, 13),)}),
    LabelledText("the cat", {"all": ((0, 7),)}),
    LabelledText(
        "the cat sat on the hat and sang to the moon, loud and long", {"end": ((30, 58),)}
    ),
    LabelledText("x", {"all": ((0, 1),)}),
]


def collect(batches):
    scored = {}
    for batch in batches:
        assert not scored.keys() & batch.keys()
        scored.update(batch)
    return [scored[i] for i in range(len(scored))]


@pytest.mark.parametrize("prefix_token", ["none", "bos"])
def test_scores_are_those_of_transformers(fake_vllm, tiny_folder, prefix_token):
    options = {"prefix_token": prefix_token, "stride": 9}
    model = VLLMModel(str(tiny_folder), **options)
    local = HuggingFaceBaseModel(str(tiny_folder), max_seq_len=32, **options)
    got = collect(model.score_spans(TEXTS, batch_rows=2, token_details=True))
    expected = collect(local.score_spans(TEXTS, token_details=True))
    assert [g.long_text for g in got] == [e.long_text for e in expected]
    assert "window" in [g.long_text for g in got]
    for g, e in zip(got, expected, strict=True):
        for name, likelihood in e.spans.items():
            assert g.spans[name].token_len == likelihood.token_len
            assert close(g.spans[name].nll, likelihood.nll, relative=1e-5)
            details, expected_details = g.spans[name].token_details, likelihood.token_details
            assert details.rank == expected_details.rank
            assert details.top_tokens == expected_details.top_tokens
    assert max(len(call) for call in model._llm.calls) == 2


def test_finished_texts_and_duplicates_are_not_read(fake_vllm, tiny_folder):
    model = VLLMModel(str(tiny_folder))
    texts = [TEXTS[2], TEXTS[0], TEXTS[2]]
    assert sorted(i for batch in model.score_spans(texts, finished={1}) for i in batch) == [0, 2]
    assert [len(call) for call in model._llm.calls] == [1]


def test_max_seq_len_leaves_room_for_the_token_that_vllm_generates(fake_vllm, tiny_folder):
    assert VLLMModel(str(tiny_folder), max_seq_len=160).text_side.max_seq_len == 32
    assert VLLMModel(str(tiny_folder), max_seq_len=20).text_side.max_seq_len == 20
    model = VLLMModel(str(tiny_folder), model_kwargs={"max_model_len": 50})
    assert model.provenance()["max_seq_len"] == 49


def test_placement_is_no_part_of_the_identity(tiny_folder):
    def fingerprint(**model_kwargs):
        return VLLMModel(str(tiny_folder), model_kwargs=model_kwargs).scorer_fingerprint()

    assert fingerprint(tensor_parallel_size=2, gpu_memory_utilization=0.5) == fingerprint()
    assert fingerprint(dtype="bfloat16") != fingerprint()


def test_vllm_is_not_installed(monkeypatch, tiny_folder):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingDependencyError, match=r"'vllm'.*opencompass_ext\[vllm\]"):
        VLLMModel(str(tiny_folder)).score_all(TEXTS)


def test_what_vllm_refuses_is_told_in_its_words(fake_vllm, tiny_folder):
    model = VLLMModel(str(tiny_folder), model_kwargs={"max_model_len": 999})
    with pytest.raises(
        ModelError, match=r"cannot load.*ValueError: max_model_len is more than 160"
    ):
        model.score_all(TEXTS)
    model = VLLMModel(str(tiny_folder))
    assert model.text_side
    model._llm.llm_engine.model_config.max_model_len = 2
    with pytest.raises(ModelError, match=r"vLLM refuses the prompts: ValueError: prompt of .* too"):
        model.score_all(TEXTS)


def test_windows_that_do_not_move_are_refused(fake_vllm, tiny_folder):
    with pytest.raises(ConfigError, match=r"takes 32 tokens.*stride=32 .*must be smaller"):
        VLLMModel(str(tiny_folder), stride=32).score_all(TEXTS)
