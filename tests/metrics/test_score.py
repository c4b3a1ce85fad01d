from opencompass_ext.metrics.score import Score, mean_score, set_score

UNREADABLE = Score(None, "incomplete_verdicts")


def test_parts_without_a_value_leave_a_row_without_one():
    assert mean_score([Score(1.0), UNREADABLE, Score(None, "judge_error")], if_empty="x") == (
        UNREADABLE
    )


def test_a_set_counts_every_row_and_averages_those_with_a_value():
    rows = [Score(1.0), UNREADABLE, Score(0.0), Score(0.5), Score(None, "no_claims")]
    result = set_score(rows)
    assert (result.mean, result.n_scored, result.n_total) == (0.5, 3, 5)
    assert result.reasons == {"incomplete_verdicts": 1, "no_claims": 1}


def test_a_set_without_a_scored_row_has_no_mean():
    assert set_score([UNREADABLE]).mean is None
    assert set_score([]).mean is None
