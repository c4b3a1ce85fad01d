"""Two readings of each response: against a plain computation, and the same in every way."""

import math
from types import SimpleNamespace

import pytest
from support.reference import close, span_nll, token_nlls
from tokenizers import Tokenizer

from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.inferencers import SourceSupportInferencer
from opencompass_ext.models import HuggingFaceBaseModel, ScriptedModel
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

TEA = ["Tea is hot. It is served in cups.", "Ice is cold."]
ROWS = [
    {"id": "a", "query": "Tea?", "sources": TEA, "response": "Tea is hot. Ice is not."},
    {"id": "b", "query": "Ice?", "sources": TEA, "response": "冰是冷的。😀 好"},
    {"id": "c", "query": "Why?", "sources": [{"id": "s", "text": "A {query} b"}], "response": "x"},
]
FRAME = "Source: {sources}\nQ: {query}\nA:"


def infer(folder, model, rows=ROWS, template=None, **options):
    inferencer = SourceSupportInferencer(
        model, output_json_filepath=str(folder), output_json_filename="d.json", **options
    )
    retriever = ZeroRetriever(SimpleNamespace(test=rows, train=rows))
    return inferencer.inference(retriever, prompt_template=template)


@pytest.fixture(scope="module")
def model(small_model):
    return HuggingFaceBaseModel(path=str(small_model))


@pytest.fixture(scope="module")
def tokenizer(small_model):
    return Tokenizer.from_file(str(small_model / "tokenizer.json"))


def ids_of(tokenizer, *texts):
    """Ids of texts that are tokenised apart, and how many the last has."""
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    return [i for part in ids for i in part], len(ids[-1])


@pytest.mark.parametrize("frame", [None, FRAME])
def test_both_readings_are_those_of_a_plain_computation(tmp_path, model, tokenizer, frame):
    predictions = infer(tmp_path, model, frame=frame)
    frame = frame or "Source: {sources}\n\nSummary:\n"
    for row, prediction in zip(ROWS, predictions, strict=True):
        texts = [s if isinstance(s, str) else s["text"] for s in row["sources"]]
        for name, sources in (("after_sources", "\n\n".join(texts)), ("alone", "")):
            lead = frame.replace("{query}", row["query"]).replace("{sources}", sources)
            ids, count = ids_of(tokenizer, lead, row["response"])
            nlls = token_nlls(model._loaded.model, ids)[-count:]
            assert prediction[name]["token_len"] == count
            assert close(prediction[name]["ppl"], math.fsum(nlls))
            assert prediction["tokens"][name] == pytest.approx(nlls, rel=1e-4, abs=1e-5)
        assert prediction["origin_prompt"].endswith(row["response"])
        assert (prediction["id"], prediction["response"], prediction["reason"]) == (
            row["id"],
            row["response"],
            None,
        )


def test_sentences_are_ranges_of_the_response_and_only_blanks_stand_between(
    tmp_path, model, tokenizer
):
    prediction = infer(tmp_path, model)[0]
    response = ROWS[0]["response"]
    sentences = prediction["sentences"]
    assert [response[s["start"] : s["end"]] for s in sentences] == ["Tea is hot.", "Ice is not."]
    tokens = prediction["tokens"]
    places = zip(tokens["start"], tokens["end"], strict=True)
    between = [i for i, (start, end) in enumerate(places) if not response[start:end].strip()]
    inside = [i for i in between if not 11 <= tokens["start"][i] < 12]
    for name in ("after_sources", "alone"):
        parts = [s[name] for s in sentences]
        left_out = [tokens[name][i] for i in between if i not in inside]
        assert len(left_out) == 1
        assert sum(p["token_len"] for p in parts) + 1 == prediction[name]["token_len"]
        assert close(sum(p["ppl"] for p in parts) + left_out[0], prediction[name]["ppl"])
    encoding = tokenizer.encode(response, add_special_tokens=False)
    lead = "Source: \n\nSummary:\n"
    ids, count = ids_of(tokenizer, lead, response)
    ranges = [(-1, -1)] * (len(ids) - count) + encoding.offsets
    expected = span_nll(model._loaded.model, ids, ranges, [(12, len(response))])
    assert close(sentences[1]["alone"]["ppl"], expected[0])


def test_tokens_stand_where_they_are_in_the_response(tmp_path, model, tokenizer):
    for row, prediction in zip(ROWS, infer(tmp_path, model), strict=True):
        places = list(zip(prediction["tokens"]["start"], prediction["tokens"]["end"], strict=True))
        assert places == tokenizer.encode(row["response"], add_special_tokens=False).offsets


def nearly(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(nearly(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(nearly, one, other))
    return close(one, other) if isinstance(one, float) else one == other


def test_batches_order_and_shared_sources_change_nothing(tmp_path, model, small_model):
    rows = [{**row, "sources": [*row["sources"], *TEA]} for row in ROWS]
    plain = infer(tmp_path / "a", model, rows)
    apart = HuggingFaceBaseModel(path=str(small_model), reuse_prefix=False)
    assert all(map(nearly, plain, infer(tmp_path / "b", model, rows, batch_size=1)))
    assert all(map(nearly, plain, infer(tmp_path / "c", model, rows[::-1])[::-1]))
    assert all(map(nearly, plain, infer(tmp_path / "d", apart, rows)))


def test_columns_go_in_verbatim(tmp_path, model):
    row = {"id": "a", "query": "{sources}?", "sources": ["{query} {sources}"], "response": "{x}"}
    prediction = infer(tmp_path, model, [row], frame=FRAME)[0]
    assert prediction["origin_prompt"] == "Source: {query} {sources}\nQ: {sources}?\nA:{x}"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"response": None}, "no_response"),
        ({"response": " \n"}, "no_response"),
        ({"sources": []}, "no_sources"),
        ({"sources": ["", "  "]}, "no_sources"),
        ({"query": " "}, "no_query"),
    ],
)
def test_a_row_that_cannot_be_scored_is_null_with_a_reason(tmp_path, change, reason):
    rows = [{**ROWS[0], **change}, ROWS[1]]
    first, second = infer(tmp_path, ScriptedModel(), rows, frame=FRAME)
    assert first["reason"] == reason
    assert first["after_sources"] is first["alone"] is first["sentences"] is first["tokens"] is None
    assert second["reason"] is None


def test_a_model_that_tells_no_single_tokens_gives_the_sums(tmp_path):
    prediction = infer(tmp_path, ScriptedModel(vocab_size=2))[0]
    assert prediction["tokens"] is None
    length = len(ROWS[0]["response"])
    assert prediction["alone"]["ppl"] == pytest.approx(length * math.log(2))


def test_rows_longer_than_the_model_are_an_error_that_names_them_or_read_in_windows(
    tmp_path, model, small_model
):
    rows = [{**ROWS[0], "sources": ["Tea is hot. " * 100]}]
    with pytest.raises(DataError, match=r"row 0 \(id 'a'\), text 'after_sources': .*tokens"):
        infer(tmp_path / "a", model, rows)
    prediction = infer(tmp_path / "b", model, rows, long_text="window")[0]
    assert prediction["after_sources"]["long_text"] == "window"
    assert prediction["alone"]["long_text"] == "whole"
    assert prediction["after_sources"]["token_len"] == prediction["alone"]["token_len"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"frame": "{query}"}, "must be a text with {sources} in it once"),
        ({"frame": "{sources}{sources}"}, "in it once"),
        ({"frame": "{sources}"}, "must hold more than {sources}"),
        ({"frame": 3}, "must be a text"),
        ({"frame": "{sources}\n", "with_query": True}, "needs {query} in the frame"),
        ({"long_text": "truncate"}, "long_text"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, told):
    with pytest.raises(ConfigError) as caught:
        SourceSupportInferencer(ScriptedModel(), **options)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"id": "a", "sources": TEA}, "no column 'response'"),
        ({"id": "a", "sources": TEA, "response": 3}, "must hold text, got 3"),
        ({"id": "a", "sources": TEA, "response": "x", "query": ["y"]}, "'query' must hold text"),
        ({"id": "a", "response": "x"}, "no column 'sources'"),
        ({"id": "a", "response": "x", "context": "y"}, "'context' is not known: name it 'sources'"),
    ],
)
def test_a_row_of_another_form_is_refused(tmp_path, row, told):
    with pytest.raises(DataError) as caught:
        infer(tmp_path, ScriptedModel(), [row], with_query="query" in row)
    assert told in str(caught.value)
    assert "row 0" in str(caught.value)


def test_a_template_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="takes no prompt_template: its 'frame' says"):
        infer(tmp_path, ScriptedModel(), template=PromptTemplate("{response}"))


def test_another_frame_or_response_is_scored_again(tmp_path, model):
    first = infer(tmp_path, model)
    assert infer(tmp_path, model) == first
    assert infer(tmp_path, model, with_query=True) != first
    changed = [{**ROWS[0], "response": "Ice"}, *ROWS[1:]]
    assert infer(tmp_path, model, changed)[0]["response"] == "Ice"
