import math

import pytest
from sklearn.metrics import roc_auc_score


class LengthEmbedder:
    """Two texts are as alike as their lengths."""

    def __init__(self, path):
        pass

    def cosines(self, pairs):
        return [1 / (1 + abs(len(a) - len(b))) for a, b in pairs]


@pytest.fixture
def labelled(make):
    """Make labelled answers whose pplqa is known: |PPL(qa) - PPL(a)| is the given gap."""

    def labelled(rows):
        test_set, predictions = [], []
        for number, (gap, chars, grounded) in enumerate(rows):
            test_set.append(
                make.row(f"q{number}", "x", "x" * chars, grounded=grounded, sources=["x" * 8])
            )
            h = math.log1p(gap)
            predictions.append(make.prediction(h_q=h, h_aq=h, h_a=0.0))
        return test_set, predictions

    return labelled


ROWS = [(1, 5, 1), (2, 9, 1), (5, 4, 1), (4, 9, 0), (6, 7, 0), (7, 6, 0), (3, 6, None)]


def of(results, name):
    records = results["analysis"]["groundedness"]["predictors"]
    return next(record for record in records if record["name"] == name)


def test_the_auc_of_every_score_is_that_of_scikit_learn(labelled, evaluate):
    results = evaluate(*labelled(ROWS))
    gaps, chars, classes = zip(*[row for row in ROWS if row[2] is not None], strict=True)
    assert results["auc"] == pytest.approx(roc_auc_score(classes, [-gap for gap in gaps]))
    assert of(results, "answer_chars")["auc"] == pytest.approx(roc_auc_score(classes, chars))
    found = results["analysis"]["groundedness"]
    assert (found["n"], found["grounded"]) == (6, 3)
    versus = of(results, "pplqa")["versus_length"]["value"]
    # Set against the direction that tells more, here that the shorter answer is grounded.
    assert found["length_direction"] == "shorter"
    assert versus == pytest.approx(results["auc"] - (1 - of(results, "answer_chars")["auc"]))


def test_it_says_whether_length_is_beaten(labelled, evaluate):
    clear = [(number % 2 * 10 + number / 50, 10, 1 - number % 2) for number in range(40)]
    said = " ".join(evaluate(*labelled(clear))["analysis"]["statement"])
    assert "AUC 1.000 [1.000, 1.000] on 40 labelled answers" in said
    assert "beats the length baseline: difference in AUC +0.500 [+0.500, +0.500]" in said


def test_the_cosine_stands_beside_the_scores(labelled, evaluate, monkeypatch):
    monkeypatch.setattr("opencompass_ext.models.embedding.SentenceEmbedder", LengthEmbedder)
    results = evaluate(*labelled(ROWS), embedding_model={"path": "any"})
    expected = roc_auc_score([1, 1, 1, 0, 0, 0], [1 / 4, 1 / 2, 1 / 5, 1 / 2, 1 / 2, 1 / 3])
    assert of(results, "cosine")["auc"] == pytest.approx(expected)
    # It is no score of answers to questions, so it ranks no systems.
    assert "cosine" not in results["details"][0]
    assert "cosine" not in results["analysis"]["systems"]["systems"][0]


def test_labels_of_one_class_have_no_auc(labelled, evaluate):
    results = evaluate(*labelled([(1, 5, 1), (2, 5, 1)]))
    assert results["auc"] is None
    assert results["reasons"]["auc"] == "one_class_only"
    assert any("all of one kind" in sentence for sentence in results["analysis"]["statement"])


def test_answers_without_a_score_are_left_out_and_counted(labelled, evaluate, make):
    test_set, predictions = labelled(ROWS)
    predictions[0] = make.prediction(a=make.likelihood(None, 3, reason="non_finite_nll"))
    found = evaluate(test_set, predictions)["analysis"]["groundedness"]
    assert (found["n"], found["excluded"]) == (5, {"non_finite_nll": 1})
