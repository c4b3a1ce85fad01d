"""Rows judged by a scripted judge, and what it was asked on the way."""

import pytest

from opencompass_ext.evaluators import ThelmaEvaluator
from opencompass_ext.judging import ScriptedJudge


@pytest.fixture
def row():
    """Return a function that makes a row of a data set, with a response beside it."""

    def row(query="What is green tea?", sources=("Green tea is a drink.",), response=None, **more):
        texts = [{"id": str(n), "text": text} for n, text in enumerate(sources, start=1)]
        return {"id": "a", "query": query, "sources": texts, "response": response, **more}

    return row


@pytest.fixture
def judges(monkeypatch):
    """All judges that were built, in order; their ``calls`` tell what they were asked."""
    built = []
    original = ScriptedJudge.__init__

    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        built.append(self)

    monkeypatch.setattr(ScriptedJudge, "__init__", __init__)
    return built


@pytest.fixture
def evaluate(judges):
    """Return a function from rows, the judge's script and options to the results."""

    def evaluate(*rows, judge=None, sources=None, **options):
        evaluator = ThelmaEvaluator(judge_cfg={"type": "ScriptedJudge", **(judge or {})}, **options)
        return evaluator.evaluate(
            1,
            1,
            list(rows),
            prediction=[row["response"] for row in rows],
            test_set=list(rows),
            **({} if sources is None else {"sources": sources}),
        )

    return evaluate
