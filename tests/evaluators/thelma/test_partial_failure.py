"""A judge that fails on some rows: the others are scored, and the counts say what is missing."""

import pytest

from opencompass_ext.errors import ConfigError, ModelError

NEVER_RIGHT = ["prose"] * 9


@pytest.fixture
def three_rows(row):
    return [
        row(
            id=name,
            query=f"What is {name} tea?",
            sources=[f"{name.title()} tea is a drink."],
            response=f"{name.title()} tea is a drink!",
        )
        for name in ("green", "black", "white")
    ]


def test_one_unreadable_row_stops_no_other(evaluate, three_rows):
    result = evaluate(*three_rows, judge={"faults": {"Black tea is a drink!": NEVER_RIGHT}})
    first, second, third = result["details"]
    assert first["reasons"] == third["reasons"] == {}
    assert set(second["reasons"].values()) == {"judge_error"}
    assert second["id"] == "black"
    assert result["coverage"]["response_precision"] == {
        "n_scored": 2,
        "n_total": 3,
        "null_rows": {"judge_error": 1},
    }
    assert result["counts"]["rows_with_judge_failures"] == 1
    assert "on 1 of 3 rows without a usable answer (judge_error:" in result["incomplete"]


def test_a_metric_needs_only_its_own_verdicts(evaluate, three_rows):
    result = evaluate(*three_rows, judge={"faults": {"Black tea is a drink!": NEVER_RIGHT}})
    assert result["details"][1]["source_query_coverage"] is not None
    assert result["details"][1]["response_self_distinctness"] == 1.0


def test_min_judged_lets_failures_pass(evaluate, three_rows):
    judge = {"faults": {"Black tea is a drink!": NEVER_RIGHT}}
    assert "incomplete" not in evaluate(*three_rows, judge=judge, min_judged=0.66)
    assert "incomplete" in evaluate(*three_rows, judge=judge, min_judged=0.67)


def test_min_coverage_shows_no_mean_over_too_few_rows(evaluate, three_rows):
    judge = {"faults": {"Black tea is a drink!": NEVER_RIGHT}}
    result = evaluate(*three_rows, judge=judge, min_coverage=0.9)
    assert result["groundedness"] is result["groundedness_ci95"] is None
    assert result["reasons"]["groundedness"] == "coverage_below_minimum"
    assert result["source_query_coverage"] is not None


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("timeout", "judge_timeout"),
        ("rate_limited", "judge_rate_limited"),
        ("unavailable", "judge_unavailable"),
        ("cut", "judge_truncated"),
        ("prose", "judge_error"),
    ],
)
def test_the_reason_tells_what_went_wrong(evaluate, three_rows, fault, reason):
    result = evaluate(
        *three_rows,
        judge={"faults": {"Black tea is a drink!": [fault] * 9}},
        metrics=["groundedness"],
    )
    assert result["details"][1]["reasons"] == {"groundedness": reason}
    assert (result["groundedness"], result["counts"]["judge_failures"]) == (1.0, {reason: 1})


def test_a_judge_that_never_gives_an_answer_scores_nothing_and_says_so(evaluate, three_rows):
    result = evaluate(*three_rows, judge={"faults": {"tea": ["prose"] * 999}})
    judged = [name for name in result["coverage"] if name != "response_self_distinctness"]
    assert all(result[name] is None for name in judged)
    assert {result["coverage"][name]["n_scored"] for name in judged} == {0}
    assert result["incomplete"].startswith("the judge left questions on 3 of 3 rows")


def test_a_judge_that_cannot_be_used_stops_the_evaluation(evaluate, three_rows):
    with pytest.raises(ModelError, match="the judge cannot be used"):
        evaluate(*three_rows, judge={"faults": {"Black tea is a drink!": ["unusable"]}})


def test_what_got_no_reply_is_asked_again_the_next_time_and_nothing_else(
    evaluate, three_rows, tmp_path
):
    options = {"transcript": tmp_path / "t.jsonl", "metrics": ["groundedness"]}
    broken = evaluate(
        *three_rows, judge={"faults": {"Black tea is a drink!": ["timeout"] * 9}}, **options
    )
    mended = evaluate(*three_rows, **options)
    assert (broken["coverage"]["groundedness"]["n_scored"], mended["groundedness"]) == (2, 1.0)
    assert mended["usage"]["claims"]["judge"]["calls"] == 1
    assert mended["usage"]["claims"]["transcript"]["calls"] == 2
    assert mended["usage"]["supported"]["judge"]["calls"] == 1


def test_probabilities_that_the_judge_does_not_give_are_refused_before_anything_is_asked(
    evaluate, judges, three_rows
):
    with pytest.raises(ConfigError, match="soft=True averages probabilities, and ScriptedJudge"):
        evaluate(*three_rows, soft=True)
    assert judges == []
