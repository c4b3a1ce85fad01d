"""Sentence vectors of a tiny random BERT, against one text at a time and a mean written out."""

import numpy as np
import pytest
from support.tiny_bert import save_tiny_bert

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.models.embedding import SentenceEmbedder


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert"))


def vector_of_one_text(folder, text, limit=16):
    import torch
    from transformers import AutoModel, AutoTokenizer

    encoded = AutoTokenizer.from_pretrained(folder)(text, truncation=True, max_length=limit)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        hidden = model(input_ids=torch.tensor([encoded["input_ids"]])).last_hidden_state[0]
    mean = sum(hidden) / len(hidden)
    return (mean / mean.norm()).numpy()


def test_vectors_equal_those_of_a_text_alone_whatever_is_in_the_batch(bert_folder):
    texts = ["the cat sat", "the dog ran far far far", "猫 坐", "the cat sat"]
    vectors = SentenceEmbedder(str(bert_folder), batch_size=2).embed(texts)
    assert vectors.shape == (4, 32)
    for text, vector in zip(texts, vectors, strict=True):
        assert vector == pytest.approx(vector_of_one_text(bert_folder, text), abs=1e-5)


def test_a_cosine_is_the_product_of_the_vectors(bert_folder):
    embedder = SentenceEmbedder(str(bert_folder))
    one, other = embedder.embed(["the cat", "the dog ran"])
    pairs = [("the cat", "the dog ran"), ("the cat", "the cat")]
    assert embedder.cosines(pairs) == pytest.approx([float(np.dot(one, other)), 1.0], abs=1e-6)
    assert embedder.cosines(pairs)[1] <= 1.0
    assert embedder.cosines([]) == []


def test_a_text_longer_than_the_model_is_cut_where_the_model_ends(bert_folder):
    embedder = SentenceEmbedder(str(bert_folder))
    (vector,) = embedder.embed(["the cat sat " * 40])
    assert vector == pytest.approx(vector_of_one_text(bert_folder, "the cat sat " * 40), abs=1e-5)
    (shorter,) = SentenceEmbedder(str(bert_folder), max_seq_len=5).embed(["the cat sat " * 40])
    assert shorter == pytest.approx(vector_of_one_text(bert_folder, "the cat sat"), abs=1e-5)


def test_a_blank_text_has_a_vector_too(bert_folder):
    assert np.linalg.norm(SentenceEmbedder(str(bert_folder)).embed([""])) == pytest.approx(1.0)


def test_half_a_surrogate_pair_is_read_as_an_unknown_character(bert_folder):
    half, unknown = SentenceEmbedder(str(bert_folder)).embed(["the cat \ud83d", "the cat ?"])
    assert half == pytest.approx(unknown)


def test_identity_tells_weights_apart_and_loads_none(bert_folder):
    embedder = SentenceEmbedder(str(bert_folder))
    assert embedder.identity() != SentenceEmbedder(str(bert_folder), max_seq_len=5).identity()
    assert "_encoder" not in vars(embedder)


def test_a_path_that_is_not_there_is_told_before_anything_is_asked(tmp_path):
    with pytest.raises(ModelError, match="there is no model at"):
        SentenceEmbedder(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="batch_size must be a whole number"):
        SentenceEmbedder(str(tmp_path), batch_size=0)


def test_a_folder_without_a_model_names_it(tmp_path):
    with pytest.raises(ModelError, match="cannot load the embedding model"):
        SentenceEmbedder(str(tmp_path)).embed(["x"])
