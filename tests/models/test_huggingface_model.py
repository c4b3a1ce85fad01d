"""Loading, prefix rules, identity and devices, on tiny models made here."""

import json
import shutil

import pytest
import torch
from support.reference import close, span_nll
from support.tiny import tiny_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.models import HuggingFaceBaseModel
from opencompass_ext.models.sources import check_source, source_identity
from opencompass_ext.models.tokenizer import text_side_of
from opencompass_ext.records import LabelledText

SPECIAL = ["<pad>", "<bos>", "<eos>"]
TEXT = "Hello, world: 你好 \U0001f600"
EVERYTHING = LabelledText(TEXT, {"label": ((0, len(TEXT)),)})


def save_tokenizer(folder, adds_bos=False, bos="<bos>"):
    """A tokenizer of one token per byte: ids 3 to 258."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<bos> $A", special_tokens=[("<bos>", 1)]
        )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos, eos_token="<eos>", pad_token="<eos>"
    )
    wrapped.padding_side = "left"
    wrapped.save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    tiny_model("llama").save_pretrained(path)
    save_tokenizer(path)
    return path


@pytest.fixture(scope="module")
def folder_with_bos(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("with-bos") / "model"
    shutil.copytree(folder, path)
    save_tokenizer(path, adds_bos=True)
    return path


def byte_ids(text):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    letter = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    return [3 + alphabet.index(letter[b]) for b in text.encode()]


def byte_ranges(text):
    return [(i, i + 1) for i, c in enumerate(text) for _ in c.encode()]


@pytest.mark.parametrize(
    ("rule", "adds_bos", "prefix"),
    [
        ("auto", False, ()),
        ("auto", True, (1,)),
        ("none", True, ()),
        ("bos", False, (1,)),
        ("eos", False, (2,)),
        (7, False, (7,)),
    ],
)
def test_what_stands_before_a_text(folder, folder_with_bos, rule, adds_bos, prefix):
    model = HuggingFaceBaseModel(
        path=str(folder_with_bos if adds_bos else folder), prefix_token=rule
    )
    likelihood = model.score_all([EVERYTHING])[0].spans["label"]
    nll, token_len = span_nll(
        tiny_model("llama"), byte_ids(TEXT), byte_ranges(TEXT), [(0, len(TEXT))], prefix
    )
    assert likelihood.token_len == token_len
    assert close(likelihood.nll, nll)
    assert likelihood.unscored_tokens == (0 if prefix else 1)
    assert model.provenance()["prefix_ids"] == list(prefix)


def test_a_missing_bos_is_said(folder, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(folder, path)
    save_tokenizer(path, bos=None)
    model = HuggingFaceBaseModel(path=str(path), prefix_token="bos")
    with pytest.raises(ModelError, match="defines no such token"):
        model.score_all([EVERYTHING])


def test_neither_scores_nor_identity_depend_on_the_folders_name(folder, tmp_path):
    copies = []
    for name in ("qwen-x", "llama foo"):
        shutil.copytree(folder, tmp_path / name)
        copies.append(HuggingFaceBaseModel(path=str(tmp_path / name)))
    first, second = copies
    assert first.identity() == second.identity()
    assert first.score_all([EVERYTHING]) == second.score_all([EVERYTHING])


def test_the_identity_changes_with_weights_tokenizer_and_options(folder, folder_with_bos, tmp_path):
    path = tmp_path / "other-weights"
    shutil.copytree(folder, path)
    tiny_model("llama", seed=1).save_pretrained(path)
    fingerprints = [
        HuggingFaceBaseModel(path=str(p), **options).scorer_fingerprint()
        for p, options in [
            (folder, {}),
            (path, {}),
            (folder_with_bos, {}),
            (folder, dict(prefix_token="bos")),
            (folder, dict(long_text="truncate")),
            (folder, dict(max_seq_len=64)),
            (folder, dict(model_kwargs=dict(dtype="bfloat16"))),
            (folder, dict(tokenizer_path=str(folder_with_bos))),
        ]
    ]
    assert len(set(fingerprints)) == len(fingerprints)
    again = HuggingFaceBaseModel(path=str(folder), max_batch_tokens=7, reuse_prefix=False)
    assert again.scorer_fingerprint() == fingerprints[0]


def test_the_identity_is_plain_json_without_loading_the_model(folder):
    model = HuggingFaceBaseModel(path=str(folder), model_kwargs=dict(dtype=torch.float32))
    assert json.loads(json.dumps(model.identity())) == model.identity()
    assert "_loaded" not in vars(model)


def test_layers_on_several_devices_change_nothing(folder, tmp_path):
    names = ["model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb", "lm_head"]
    split = dict.fromkeys(names, "cpu") | {"model.layers.1": "disk"}
    divided = HuggingFaceBaseModel(
        path=str(folder),
        model_kwargs=dict(device_map=split, offload_folder=str(tmp_path / "offload")),
    )
    whole = HuggingFaceBaseModel(path=str(folder))
    got, expected = (m.score_all([EVERYTHING])[0].spans["label"] for m in (divided, whole))
    assert got.token_len == expected.token_len
    assert close(got.nll, expected.nll)


@pytest.mark.parametrize("dtype", ["bfloat16", "torch.float16"])
def test_half_precision_is_near_float32(folder, dtype):
    half = HuggingFaceBaseModel(path=str(folder), model_kwargs=dict(torch_dtype=dtype))
    full = HuggingFaceBaseModel(path=str(folder))
    got, expected = (m.score_all([EVERYTHING])[0].spans["label"] for m in (half, full))
    assert half.provenance()["dtype"] == "torch." + dtype.removeprefix("torch.")
    assert got.token_len == expected.token_len
    assert close(got.nll, expected.nll, relative=2e-2)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_attention_implementations_agree(folder, attention):
    model = HuggingFaceBaseModel(path=str(folder), model_kwargs=dict(attn_implementation=attention))
    plain = HuggingFaceBaseModel(path=str(folder))
    got, expected = (m.score_all([EVERYTHING])[0].spans["label"] for m in (model, plain))
    assert model.provenance()["attn_implementation"] == attention
    assert close(got.nll, expected.nll)


# peft asks transformers for something by a name that goes with its next major version.
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_an_adapter_changes_the_scores_as_peft_itself_does(folder, tmp_path):
    import peft

    base = tiny_model("llama")
    adapted = peft.get_peft_model(
        base, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    )
    adapted.save_pretrained(tmp_path / "adapter")
    nll, token_len = span_nll(adapted.eval(), byte_ids(TEXT), byte_ranges(TEXT), [(0, len(TEXT))])
    model = HuggingFaceBaseModel(path=str(folder), peft_path=str(tmp_path / "adapter"))
    likelihood = model.score_all([EVERYTHING])[0].spans["label"]
    plain = HuggingFaceBaseModel(path=str(folder)).score_all([EVERYTHING])[0].spans["label"]
    assert likelihood.token_len == token_len
    assert close(likelihood.nll, nll)
    assert not close(likelihood.nll, plain.nll)


def test_more_positions_than_the_model_has_are_not_used(folder, caplog):
    model = HuggingFaceBaseModel(path=str(folder), max_seq_len=100_000)
    model.score_all([EVERYTHING])
    assert model.provenance()["max_seq_len"] == 160
    assert "100000" in caplog.text


def test_weights_that_lack_parameters_are_refused_instead_of_random(folder, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(folder, path)
    config = json.loads((path / "config.json").read_text())
    config["num_hidden_layers"] = 3
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"lack .*model\.layers\.2"):
        HuggingFaceBaseModel(path=str(path)).score_all([EVERYTHING])


def test_a_tokenizer_without_offsets_names_the_alternative(folder, tmp_path):
    path = tmp_path / "slow"
    path.mkdir()
    (path / "vocab.json").write_text(json.dumps({"a": 0, "<unk>": 1}))
    (path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "CTRLTokenizer", "unk_token": "<unk>"})
    )
    (path / "merges.txt").write_text("#version: 0.2\n")
    (path / "config.json").write_text(json.dumps({"model_type": "ctrl"}))
    model = HuggingFaceBaseModel(path=str(folder), tokenizer_path=str(path))
    with pytest.raises(ModelError, match=r"no character offsets.*tokenizer\.json"):
        model.score_all([EVERYTHING])


@pytest.mark.parametrize("path", ["/nowhere/model", "./nowhere", "a/b/c", "missing.gguf"])
def test_a_missing_model_is_said_at_once(path):
    with pytest.raises(ModelError, match="there is no model at"):
        HuggingFaceBaseModel(path=path)


@pytest.mark.parametrize(
    ("key", "what", "advice"),
    [
        ("path", "model", "a folder with config.json and weights"),
        ("tokenizer_path", "tokenizer", "a folder with tokenizer.json"),
        ("peft_path", "adapter", "a folder with adapter_config.json"),
    ],
)
def test_a_missing_place_is_named_by_its_key(key, what, advice):
    with pytest.raises(ModelError) as caught:
        check_source("/nowhere/at/all", key)
    assert str(caught.value).startswith(f"{key}: there is no {what} at '/nowhere/at/all'")
    assert f"give {advice}" in str(caught.value)
    with pytest.raises(ModelError, match=f"^{key} is empty$"):
        check_source("", key)


def test_an_empty_path_is_refused_at_once():
    with pytest.raises(ModelError, match=r"^path is empty$"):
        HuggingFaceBaseModel(path="")


def test_a_folder_without_a_config_says_so_and_offers_its_gguf_file(tmp_path):
    with pytest.raises(ModelError, match=r"cannot load the model .* has no config\.json") as caught:
        HuggingFaceBaseModel(path=str(tmp_path)).score_all([EVERYTHING])
    assert "GGUF" not in str(caught.value)
    (tmp_path / "a.gguf").touch()
    with pytest.raises(ModelError, match=r"one of its GGUF files, such as '.*a\.gguf'"):
        HuggingFaceBaseModel(path=str(tmp_path)).score_all([EVERYTHING])


@pytest.mark.parametrize("keep", [slice(0, 0), slice(0, 5), slice(0, -9), slice(9, None)])
def test_damaged_weights_are_named_with_what_to_do(folder, tmp_path, keep):
    path = tmp_path / "model"
    shutil.copytree(folder, path)
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[keep])
    with pytest.raises(ModelError, match="download or copy it again") as caught:
        HuggingFaceBaseModel(path=str(path)).score_all([EVERYTHING])
    assert f"{str(weights)!r}: the file is damaged" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"junk" * 9, b"GGUF\3\0\0\0cut off."])
def test_a_bad_gguf_file_is_named_not_its_folder(tmp_path, content):
    file = tmp_path / "bad.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        HuggingFaceBaseModel(path=str(file)).score_all([EVERYTHING])
    assert str(caught.value).startswith(f"cannot load the model {str(file)!r}: ")


def test_an_argument_the_model_does_not_know_names_the_key(folder):
    model = HuggingFaceBaseModel(path=str(folder), model_kwargs=dict(foo=1))
    with pytest.raises(ModelError, match=r"unexpected keyword argument 'foo': check model_kwargs$"):
        model.score_all([EVERYTHING])


@pytest.mark.parametrize("token_id", [99999, 300])
def test_a_prefix_outside_the_vocabulary_is_refused(folder, token_id):
    model = HuggingFaceBaseModel(path=str(folder), prefix_token=token_id)
    message = f"^prefix_token {token_id}: the vocabulary has 300 tokens$"
    with pytest.raises(ModelError, match=message):
        model.score_all([EVERYTHING])


def test_the_last_token_of_the_vocabulary_can_stand_before_a_text(folder):
    model = HuggingFaceBaseModel(path=str(folder), prefix_token=299)
    assert model.score_all([EVERYTHING])[0].spans["label"].unscored_tokens == 0


def test_a_tokenizer_that_splits_special_tokens_is_refused(folder):
    model = HuggingFaceBaseModel(path=str(folder), tokenizer_kwargs=dict(split_special_tokens=True))
    with pytest.raises(ModelError, match="split_special_tokens=True, which this scorer does not"):
        model.score_all([EVERYTHING])


def test_a_tokenizer_that_cannot_be_copied_is_named(folder):
    class Whole:
        def pre_tokenize(self, text):
            """Leave the text in one piece."""

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Whole())
    with pytest.raises(ModelError, match="cannot be copied: Custom PreTokenizer") as caught:
        text_side_of(tokenizer, prefix_token="none", max_seq_len=None)
    assert repr(str(folder)) in str(caught.value)


def test_a_hub_id_without_network_says_what_to_do(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"cannot be had from the hub.*\w; give.*embedded:"):
        HuggingFaceBaseModel(path="no-such-org/no-such-model").identity()


@pytest.mark.parametrize("reachable", [True, False])
def test_the_hub_is_asked_once_for_each_revision(monkeypatch, reachable):
    asked = []

    def download(repository, file, revision):
        asked.append(revision)
        if not reachable:
            raise OSError("no network.")
        return f"/cache/commit-of-{revision}/{file}"

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    for revision in ("a", "b", "a", "b"):
        name = f"org/reachable-{reachable}"
        if reachable:
            identity = source_identity(name, {"revision": revision})
            assert identity == {"hub": name, "revision": f"commit-of-{revision}"}
        else:
            with pytest.raises(ModelError, match="the hub: no network; give"):
                source_identity(name, {"revision": revision})
    assert asked == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(prefix_token="BOS"), "prefix_token must be one of auto, bos"),
        (dict(prefix_token=True), "prefix_token"),
        (dict(long_text="cut"), "long_text must be one of"),
        (dict(max_seq_len=0), "max_seq_len must be a whole number"),
        (dict(stride=1.5), "stride must be a whole number"),
        (dict(max_batch_tokens=-1), "max_batch_tokens must be a whole number"),
    ],
)
def test_values_an_option_cannot_have_are_refused(folder, options, message):
    with pytest.raises(ConfigError, match=message):
        HuggingFaceBaseModel(path=str(folder), **options)


def test_an_unknown_dtype_is_named(folder):
    model = HuggingFaceBaseModel(path=str(folder), model_kwargs=dict(dtype="float33"))
    with pytest.raises(ModelError, match="unknown dtype 'float33'"):
        model.score_all([EVERYTHING])


def test_a_gguf_file_loads_as_it_is(tiny_gguf):
    model = HuggingFaceBaseModel(path=str(tiny_gguf))
    likelihood = model.score_all([LabelledText("a  7", {"label": ((1, 4),)})])[0].spans["label"]
    # Its vocabulary has one token for two blanks, which the digit after them must not break up.
    assert likelihood.token_len == 2


def test_opencompass_call_gives_sums_and_counts(folder):
    model = HuggingFaceBaseModel(path=str(folder))
    sums, counts = model.get_ppl_tokenwise([TEXT, "abc"], [[[0, 5, 1]], [[1, 3, 1]]])
    assert counts == [4, 2]
    expected = model.score_all([LabelledText("abc", {"label": ((1, 3),)})])[0].spans["label"]
    assert close(sums[1], expected.nll)
    assert model.get_token_len("你") == 3
