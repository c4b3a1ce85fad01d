"""Answers of tiny models against a plain loop over the argmax."""

import numpy as np
import pytest
import torch
from support.tiny import tiny_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from opencompass_ext.errors import ConfigError, TextError
from opencompass_ext.models import HuggingFaceBaseModel, HuggingFacewithChatTemplate, ScriptedModel
from opencompass_ext.models.generation import GenerationOptions, Generator
from opencompass_ext.records import GenerationRequest

PROMPTS = ["One", "A much longer prompt than all others", "zwei drei", "One", "光"]
TEMPLATE = (
    "<bos>{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[bot]{{ tone or '' }}{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    tiny_model("llama").save_pretrained(path)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {t: i for i, t in enumerate(["<pad>", "<bos>", "<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        chat_template=TEMPLATE,
    ).save_pretrained(path)
    return path


def ask(model, prompts=PROMPTS, max_out_len=6, **options):
    answers = {}
    requests = [GenerationRequest(prompt) for prompt in prompts]
    for batch in model.generate_texts(requests, max_out_len=max_out_len, **options):
        assert not answers.keys() & batch.keys()
        answers.update(batch)
    return answers


def make_generator(model, **options):
    return Generator(model._loaded.model, model.text_side.tokenizer, GenerationOptions(**options))


def argmax_loop(model, ids, steps, never=()):
    """Return the likeliest next tokens, one by one, without a cache or a batch."""
    network, ids, new = model._loaded.model, list(ids), []
    for _ in range(steps):
        logits = network(torch.tensor([ids])).logits[0, -1]
        logits[list(never)] = -torch.inf
        new.append(int(logits.argmax()))
        if new[-1] == model.text_side.tokenizer.eos_token_id:
            break
        ids.append(new[-1])
    return new


def encoded(model, text):
    return model.text_side.encoder.encode([text])[0].ids


@pytest.mark.parametrize("batch_rows", [None, 1, 2])
def test_greedy_answers_are_the_argmax_whatever_the_batch(folder, batch_rows):
    model = HuggingFaceBaseModel(str(folder))
    answers = ask(model, batch_rows=batch_rows)
    for i, prompt in enumerate(PROMPTS):
        expected = argmax_loop(model, encoded(model, prompt), 6)
        decoded = model.text_side.tokenizer.decode(expected, skip_special_tokens=True)
        if answers[i].finish_reason == "length":
            decoded = decoded.rstrip("\ufffd")
        assert answers[i].text == decoded
        assert answers[i].output_tokens == len(expected)
        assert answers[i].input_tokens == len(prompt.encode())


def test_an_answer_that_reaches_the_limit_says_so(folder):
    model = HuggingFaceBaseModel(str(folder))
    lengths = {a.output_tokens: a.finish_reason for a in ask(model, max_out_len=3).values()}
    assert lengths[3] == "length"


def test_half_a_character_at_the_limit_is_left_out(folder):
    model = HuggingFaceBaseModel(str(folder))
    half = encoded(model, "a光")[:-1].tolist()
    generator = make_generator(model, max_out_len=len(half))
    assert generator._cut(1, half).text == "a"
    assert generator._cut(1, [*half, 2]).text == "a\ufffd"


def test_an_end_token_ends_an_answer_and_min_out_len_forbids_it(folder):
    model = HuggingFaceBaseModel(str(folder))
    first = argmax_loop(model, encoded(model, "One"), 1)[0]
    model._loaded.model.generation_config.eos_token_id = [first]
    (answer,) = ask(model, ["One"]).values()
    assert (answer.output_tokens, answer.finish_reason) == (1, "stop")
    (longer,) = ask(model, ["One"], min_out_len=2).values()
    assert longer.output_tokens >= 2


def test_an_answer_ends_before_the_first_stop_word(folder):
    model = HuggingFaceBaseModel(str(folder))
    whole = ask(model, ["One"], max_out_len=20)[0].text
    stop = next(c for c in whole[3:] if c.isprintable())
    answer = ask(model, ["One"], max_out_len=20, stop_words=["never to be seen", stop])[0]
    assert answer.text == whole[: whole.index(stop)]
    assert answer.finish_reason == "stop"
    own = HuggingFaceBaseModel(str(folder), stop_words=[stop])
    assert ask(own, ["One"], max_out_len=20)[0].text == answer.text
    assert own.generation_settings() != model.generation_settings()


def test_only_what_is_not_finished_is_yielded_and_does_not_change(folder):
    model = HuggingFaceBaseModel(str(folder))
    whole = ask(model, batch_rows=2)
    rest = ask(model, batch_rows=2, finished={0, 2})
    assert rest == {i: whole[i] for i in (1, 3, 4)}


def test_sampled_answers_come_again_and_equal_prompts_are_answered_apart(folder):
    model = HuggingFaceBaseModel(
        str(folder), generation_kwargs=dict(do_sample=True, temperature=3.0)
    )
    first, second = (ask(model, ["One"] * 4, max_out_len=12) for _ in range(2))
    assert first == second
    assert len({answer.text for answer in first.values()}) > 1


def test_a_chat_is_read_in_its_template_without_a_second_bos(folder):
    model = HuggingFacewithChatTemplate(
        str(folder), prefix_token="bos", chat_template_kwargs=dict(tone="!")
    )
    messages = ({"role": "system", "content": "S"}, {"role": "user", "content": "hi"})
    text = "<bos>[system]S[user]hi[bot]!"
    assert model.chat_text(messages) == text
    ids = encoded(model, text)
    assert ids.tolist().count(1) == 1
    expected = model.text_side.tokenizer.decode(argmax_loop(model, ids, 6)).rstrip("\ufffd")
    answers = ask(model, [messages, "hi"])
    assert answers[0].text == expected
    assert answers[0].input_tokens == len(ids)
    assert answers[1] == ask(model, [({"role": "user", "content": "hi"},)])[0]


def test_a_base_model_puts_its_prefix_before_a_prompt_once(folder):
    model = HuggingFaceBaseModel(str(folder), prefix_token="bos")
    ids = model.text_side.encode_with_prefix(["ab", "<bos>ab"])
    assert np.array_equal(ids[0], ids[1])
    assert ids[0][0] == 1
    assert len(ids[0]) == 3


def test_what_cannot_be_asked_is_refused(folder):
    base = HuggingFaceBaseModel(str(folder), max_seq_len=16)
    with pytest.raises(TextError, match=r"row 1: the prompt has 20 tokens and max_out_len=6, and"):
        ask(base, ["a", "b" * 20])
    with pytest.raises(TextError, match="row 0: the prompt has no token"):
        ask(base, [""])
    with pytest.raises(ConfigError, match="was given the messages of a chat"):
        ask(base, [({"role": "user", "content": "hi"},)])
    for wrong in (dict(temprature=1.0), dict(temperature=0.5), dict(num_return_sequences=2)):
        with pytest.raises(ConfigError, match="generation_kwargs"):
            ask(HuggingFaceBaseModel(str(folder), generation_kwargs=wrong))
    with pytest.raises(ConfigError, match="ScriptedModel scores texts and does not generate"):
        ScriptedModel().generate(["a"], 3)
    with pytest.raises(ConfigError, match="stop_words must hold texts that are not empty, got ''"):
        HuggingFaceBaseModel(str(folder), stop_words=["x", ""])
    chat = HuggingFacewithChatTemplate(str(folder), tokenizer_kwargs=dict(chat_template=""))
    with pytest.raises(ConfigError, match="has no chat template"):
        chat.chat_text([{"role": "user", "content": "x"}])


def test_a_template_that_refuses_a_role_is_named(folder):
    template = "{{ raise_exception('no system role') }}"
    model = HuggingFacewithChatTemplate(str(folder), tokenizer_kwargs=dict(chat_template=template))
    with pytest.raises(ConfigError, match=r"refuses messages of the roles \['system'\]: no system"):
        model.chat_text([{"role": "system", "content": "x"}])


def test_opencompass_call(folder):
    model = HuggingFaceBaseModel(str(folder))
    assert model.generate(["One", "光"], 6) == [ask(model)[0].text, ask(model)[4].text]
