"""Who wins: agreement with pairs of which one is known to be better."""

import pytest

from opencompass_ext.datasets import RAGPairsDataset
from opencompass_ext.errors import PredictionsError
from opencompass_ext.evaluators import ThelmaPairsEvaluator
from opencompass_ext.summarizers.reports.render import to_markdown
from opencompass_ext.summarizers.reports.thelma_pairs import thelma_pairs_report


def pair(number, better, worse):
    sides = {"better": better, "worse": worse}
    return [
        {
            "id": f"{number}/{side}",
            "pair": str(number),
            "side": side,
            "aspect": "groundedness",
            "query": "What is green tea?",
            "sources": [{"id": "1", "text": "Green tea is a drink."}],
            "response": response,
        }
        for side, response in sides.items()
    ]


@pytest.fixture
def agreement():
    """Return a function from rows to the results."""

    def agreement(rows, judge=None, **options):
        evaluator = ThelmaPairsEvaluator({"type": "ScriptedJudge", **(judge or {})}, **options)
        return evaluator.score([row["response"] for row in rows], rows)

    return agreement


@pytest.fixture
def four_pairs():
    grounded, made_up = "Green tea is a drink.", "Green tea is a stone."
    return [
        *pair(1, grounded, made_up),
        *pair(2, grounded, "Cheese."),
        *pair(3, grounded, "Green tea."),
        *pair(4, made_up, grounded),
    ]


def test_wins_ties_and_losses_are_counted_with_rates(agreement, four_pairs):
    found = agreement(four_pairs, metrics=["groundedness"])
    seen = found["agreement"]["groundedness"]
    assert (seen["wins"], seen["ties"], seen["losses"], seen["unscored"]) == (2, 1, 1, 0)
    assert found["groundedness_agreement"] == seen["strict_rate"] == 0.5
    assert seen["half_credit_rate"] == 0.625
    assert seen["p_value"] == 1.0
    low, high = found["groundedness_agreement_ci95"]
    assert 0 < low < 0.5 < high < 1


def test_a_pair_with_a_side_without_a_score_enters_no_rate(agreement, four_pairs):
    judge = {"faults": {"Cheese.": ["prose"] * 9}}
    found = agreement(four_pairs, judge, metrics=["groundedness"])
    assert found["agreement"]["groundedness"]["unscored"] == 1
    assert found["coverage"]["groundedness_agreement"] == {
        "n_scored": 3,
        "n_total": 4,
        "null_rows": {"side_without_a_score": 1},
    }
    assert "on 1 of 8 rows" in found["incomplete"]


def test_no_scored_pair_has_no_rate_and_a_reason(agreement):
    found = agreement(pair(1, "I don't know.", "No idea, I don't know."), metrics=["groundedness"])
    assert found["groundedness_agreement"] is found["groundedness_agreement_ci95"] is None
    assert found["reasons"] == {
        "groundedness_agreement": "no_pair_scored",
        "groundedness_agreement_ci95": "no_pair_scored",
    }


def test_details_name_pair_and_side(agreement, four_pairs):
    details = agreement(four_pairs)["details"]
    assert [(d["pair"], d["side"]) for d in details[:2]] == [("1", "better"), ("1", "worse")]
    assert details[1]["groundedness"] == 0.0


@pytest.mark.parametrize("keep", [slice(1, None), slice(0, 3), slice(0, 8, 3)])
def test_rows_that_are_no_pairs_are_refused(agreement, four_pairs, keep):
    with pytest.raises(PredictionsError, match="pair"):
        agreement(four_pairs[keep])


def test_the_shorter_side_is_a_rival_where_sides_differ(agreement, four_pairs):
    # Characters, better against worse: 21 21, 21 7, 21 10, 21 21; the sources are the same.
    found = agreement(four_pairs, metrics=["groundedness"])
    assert found["rivals"].keys() == {"shorter_response"}
    seen = found["rivals"]["shorter_response"]
    assert (seen["wins"], seen["ties"], seen["losses"]) == (0, 2, 2)
    four_pairs[1] = {**four_pairs[1], "sources": [{"id": "1", "text": "Green tea."}]}
    seen = agreement(four_pairs, metrics=["groundedness"])["rivals"]["shorter_sources"]
    assert (seen["wins"], seen["ties"], seen["losses"]) == (0, 3, 1)


def test_the_report_shows_each_metric(agreement, four_pairs):
    report = thelma_pairs_report("pairs", {"judge": agreement(four_pairs, metrics="all")})
    (section,) = report.sections
    rows = {row[0]: row[1:] for row in section.table.rows}
    assert rows["groundedness"][:4] == ("2", "1", "1", "0")
    assert rows["source_precision_chunk"][:4] == ("0", "4", "0", "0")
    assert rows["shorter response"][:4] == ("0", "2", "2", "0")
    assert "## judge" in to_markdown(report)


def test_shipped_pairs_can_be_judged(agreement):
    rows = RAGPairsDataset(path="data/rag_pairs", name="en", aspect="groundedness").test.to_list()
    assert agreement(rows, metrics=["groundedness"])["groundedness_agreement"] == 1.0
