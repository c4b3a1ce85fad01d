import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.evaluators.cosines import nearest_cosines


class LetterEmbedder:
    """Two texts are as alike as their sets of letters."""

    def __init__(self, path):
        assert path == "letters"

    def cosines(self, pairs):
        return [len(set(a) & set(b)) / len(set(a) | set(b)) for a, b in pairs]


@pytest.fixture(autouse=True)
def letters(monkeypatch):
    monkeypatch.setattr("opencompass_ext.models.embedding.SentenceEmbedder", LetterEmbedder)


def test_the_nearest_source_counts():
    scores = nearest_cosines(["ab", "xy"], [["ab", "cd"], ["x", "xyz"]], {"path": "letters"})
    assert [score.value for score in scores] == [1.0, pytest.approx(2 / 3)]


def test_blank_sources_and_texts_have_nothing_to_compare():
    texts, sources = ["ab", " ", "ab", "ab"], [["", "abc"], ["ab"], [], [" "]]
    scores = nearest_cosines(texts, sources, {"path": "letters"})
    assert scores[0].value == pytest.approx(2 / 3)
    assert [score.reason for score in scores[1:]] == ["nothing_to_compare"] * 3


def test_a_wrong_option_is_said_to_be_one_of_the_embedding_model():
    with pytest.raises(ConfigError, match=r"embedding_model: .*'pth'"):
        nearest_cosines([], [], {"pth": "letters"})
