"""What goes in: columns, sources of either side, languages, similarity, and wrong options."""

import pytest
from support.tiny_bert import save_tiny_bert

from opencompass_ext.errors import ConfigError, ModelError, PredictionsError
from opencompass_ext.evaluators import ThelmaEvaluator
from opencompass_ext.evaluators.thelma import evaluator as module

JUDGE = {"type": "ScriptedJudge"}


def test_a_system_is_judged_by_its_own_sources(evaluate, row):
    answers = [row(id=n, sources=["x"], response="Green tea is a drink.") for n in "ab"]
    own = [[{"id": "s", "text": "Green tea is a drink."}], None]
    first, second = evaluate(*answers, sources=own, metrics=["groundedness"])["details"]
    assert (first["groundedness"], second["groundedness"]) == (1.0, 0.0)
    assert first["claims"][0]["supported"]["source"] == "s"


def test_responses_that_were_cut_are_counted(row):
    rows = [row(id=n, response="Green tea is a") for n in "abc"]
    evaluator = ThelmaEvaluator(JUDGE, metrics=["groundedness"])
    found = evaluator.score([r["response"] for r in rows], rows, None, ["length", "stop", None])
    assert found["counts"]["cut_responses"] == 1
    assert evaluator.score(["x"], rows[:1])["counts"]["cut_responses"] == 0


def test_a_row_without_sources_on_either_side_is_a_mistake(evaluate, row):
    with pytest.raises(PredictionsError, match="row 0: neither the data set nor"):
        evaluate({**row(response="x"), "sources": None})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"query": None}, "row 0: the data set must have a text in 'query', got None"),
        ({"response": 3}, "row 0: 'prediction' must be one text, got 3"),
        ({"sources": "text"}, "row 0: 'sources' must be a list"),
    ],
)
def test_a_row_that_cannot_be_judged_is_named(evaluate, row, change, told):
    with pytest.raises(PredictionsError) as caught:
        evaluate({**row(response="x"), **change})
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("response", "sentences"),
    [
        ("他来自北京。他喜欢茶!", 2),
        ("यह एक वाक्य है। यह दूसरा है।", 2),
        ("هذا نص. هل هذا سؤال؟", 2),
        ("ผมชอบกาแฟ เขาชอบชา", 1),
        ("To dobre. To też np. dobre", 2),
    ],
)
def test_sentences_of_any_language_are_compared_and_none_is_dropped(
    evaluate, judges, row, response, sentences
):
    result = evaluate(
        row(response=response), metrics=["response_self_distinctness"], sentence_language="pl"
    )
    assert result["response_self_distinctness"] is not None
    assert len(judges[0].calls) == (1 if sentences == 2 else 0)
    shown = result["details"][0].get("sentences", [response])
    assert "".join(shown).replace(" ", "") == response.replace(" ", "")


def test_similarity_by_embedding_asks_the_judge_nothing(evaluate, judges, row, monkeypatch):
    from opencompass_ext.models.embedding import SentenceEmbedder

    cosines = iter([0.2, -0.4, 1.0])
    monkeypatch.setattr(SentenceEmbedder, "__init__", lambda self, path: None)
    monkeypatch.setattr(SentenceEmbedder, "load", lambda self: None)
    monkeypatch.setattr(SentenceEmbedder, "identity", lambda self: {"path": "tiny"})
    monkeypatch.setattr(
        SentenceEmbedder, "cosines", lambda self, pairs: [next(cosines) for _ in pairs]
    )
    result = evaluate(
        row(response="One. Two. Three."),
        metrics=["response_self_distinctness"],
        similarity="embedding",
        embedding_model={"path": "tiny"},
    )
    # A cosine below 0 counts as 0: sentences cannot be more distinct than unrelated.
    assert result["response_self_distinctness"] == pytest.approx((0.8 + 1.0 + 0.0) / 3)
    assert judges[0].calls == []
    assert result["judging"]["similarity"] == "embedding"
    assert result["judging"]["embedding_model"] == {"path": "tiny"}
    assert [pair["cosine"] for pair in result["details"][0]["pairs"]] == [0.2, -0.4, 1.0]


def test_sentences_are_compared_by_a_real_encoder(evaluate, judges, row, tmp_path):
    path = str(save_tiny_bert(tmp_path))
    result = evaluate(
        row(response="The cat sat. The dog ran far. The cat sat."),
        metrics=["response_self_distinctness"],
        similarity="embedding",
        embedding_model={"path": path},
    )
    first, same, third = (pair["cosine"] for pair in result["details"][0]["pairs"])
    assert same == pytest.approx(1.0)
    assert first == pytest.approx(third)
    assert result["response_self_distinctness"] == pytest.approx(
        (3 - max(first, 0) - same - max(third, 0)) / 3
    )
    assert judges[0].calls == []


def test_progress_is_told_for_every_chunk(evaluate, row):
    told = []
    rows = [row(id=n) for n in range(18)]
    evaluate(*rows, metrics=["source_precision_chunk"], progress=lambda *a: told.append(a))
    assert told == [(0, 18, 0), (16, 18, 0), (18, 18, 0)]


def test_a_run_that_is_to_stop_stops_between_two_replies(evaluate, judges, row, monkeypatch):
    monkeypatch.setattr(module, "REPORT_SECONDS", 0.0)

    def stop(rows, total, tokens):
        if judges and judges[0].calls:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(*[row(id=n, query=f"Query {n}?") for n in range(16)], progress=stop)
    assert len(judges[0].calls) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"judge_cfg": None}, "judge_cfg must be a dict with a 'type'"),
        ({"metrics": ["groundednes"]}, "no metric 'groundednes': did you mean 'groundedness'?"),
        ({"metrics": "groundedness"}, "metrics must be 'all' or a list of names"),
        ({"metrics": []}, "metrics must be 'all' or a list of names"),
        ({"similarity": "cosine"}, "similarity must be 'judge' or 'embedding'"),
        ({"similarity": "embedding"}, "needs embedding_model=dict(path=...)"),
        ({"embedding_model": {"path": "x"}}, "used with similarity='embedding' only"),
        ({"lang": "fr"}, "no language 'fr'"),
        ({"units_per_call": 0}, "units_per_call must be a whole number of at least 1, got 0"),
        ({"low": 0.8}, "low=0.8 must not be above high=0.7"),
        ({"min_coverage": 2}, "min_coverage must be a number from 0 to 1, got 2"),
        ({"seed": "x"}, "seed must be a whole number of at least 0, got 'x'"),
        ({"min_judged": True}, "min_judged must be a number from 0 to 1, got True"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_anything_is_asked(options, told):
    with pytest.raises(ConfigError) as caught:
        ThelmaEvaluator(**{"judge_cfg": JUDGE, **options})
    assert told in str(caught.value)


def test_a_key_that_the_embedding_model_does_not_know_is_told(evaluate, row):
    with pytest.raises(ConfigError, match=r"embedding_model: .*pooling"):
        evaluate(
            row(response="x"), similarity="embedding", embedding_model={"path": "x", "pooling": 1}
        )


@pytest.mark.parametrize("path", ["/no/such/model", "an-empty-folder"])
def test_an_embedding_model_that_cannot_be_loaded_is_told_before_anything_is_asked(
    evaluate, judges, row, tmp_path, monkeypatch, path
):
    (tmp_path / "an-empty-folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=path):
        evaluate(row(response="x"), similarity="embedding", embedding_model={"path": path})
    assert [judge.calls for judge in judges] in ([], [[]])
