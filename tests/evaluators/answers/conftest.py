import pytest

from opencompass_ext.evaluators import GEvalEvaluator, GPTScoreEvaluator, PPLqaEvaluator


def likelihood(nll, tokens, **more):
    """Make an entry of a predictions file."""
    return {"ppl": nll, "token_len": tokens, "reason": None, **more}


def answer_row(question, system, answer="An answer.", **more):
    """Make a row of the data set, as PPLqaDataset gives it."""
    defaults = {"category": None, "preferences": [], "rank": None}
    return {"id": question, "model": system, "answer": answer, **defaults, **more}


def prediction(h_q=4.0, n_q=20, h_aq=1.9, h_a=2.0, n_a=10, **more):
    """Make a row of the predictions from means and token counts."""
    return {
        "q": likelihood(h_q * n_q, n_q),
        "a_given_q": likelihood(h_aq * n_a, n_a),
        "a": likelihood(h_a * n_a, n_a),
        "reason": None,
        **more,
    }


def to_columns(rows):
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


@pytest.fixture
def make():
    """Give the makers of rows to a test."""

    class Make:
        pass

    Make.likelihood = staticmethod(likelihood)
    Make.row = staticmethod(answer_row)
    Make.prediction = staticmethod(prediction)
    return Make


@pytest.fixture
def evaluate():
    """Run an evaluator over a data set and its predictions, as a task does."""

    def evaluate(test_set, predictions, kind="pplqa", **options):
        cls = {
            "pplqa": PPLqaEvaluator,
            "gptscore": GPTScoreEvaluator,
            "geval": GEvalEvaluator,
        }[kind]
        columns = {**to_columns(predictions), "test_set": test_set}
        columns.setdefault("id", [row["id"] for row in test_set])
        columns.setdefault("model", [row["model"] for row in test_set])
        evaluator = cls(resamples=200, **options)
        return evaluator.evaluate(1, 1, test_set, **columns)

    return evaluate


@pytest.fixture
def graded_set():
    """A set where the answer is known: of each question system "good" is best, then "fair", "bad".

    People always prefer the better one. The score is set so that ``pplqa`` puts them in the right
    order, while the longer answer is always the worse one.
    """
    test_set, predictions = [], []
    votes = [
        {"a": "good", "b": "fair", "winner": "a", "judge": "x"},
        {"a": "bad", "b": "fair", "winner": "b", "judge": "x"},
        {"a": "bad", "b": "good", "winner": "b", "judge": "x"},
    ]
    for number in range(12):
        category = "even" if number % 2 == 0 else "odd"
        # The order of the rows changes from question to question, so that both classes occur.
        order = [("good", 1, 0.5), ("fair", 2, 1.0), ("bad", 3, 1.5)]
        for system, rank, gap in order if number % 2 else order[::-1]:
            test_set.append(
                answer_row(
                    f"q{number}",
                    system,
                    "x" * (10 * rank + number),
                    category=category,
                    preferences=votes,
                    rank=rank,
                )
            )
            # With equal h_q, h_(a|q) and h_a = 0, pplqa is exp(h) - 1.
            h = gap + 0.01 * number
            predictions.append(prediction(h_q=h, h_aq=h, h_a=0.0))
    return test_set, predictions
