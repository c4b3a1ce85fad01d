import pytest

from opencompass_ext.metrics.bootstrap import mean_interval
from opencompass_ext.metrics.systems import rank_systems


def by_name(ranking):
    return {s.system: s for s in ranking.systems}


def test_complete_answers_are_ranked_by_their_mean():
    scores = {"a": {1: 3.0, 2: 1.0}, "b": {1: 1.0, 2: 2.0}, "c": {1: 9.0, 2: 9.0}}
    low = rank_systems(scores, higher_is_better=False, seed=0)
    assert [s.system for s in low.systems] == ["b", "a", "c"]
    assert [s.rank for s in low.systems] == [1.0, 2.0, 3.0]
    high = rank_systems(scores, higher_is_better=True, seed=0)
    assert [s.system for s in high.systems] == ["c", "a", "b"]
    assert (low.common_questions, low.questions, low.ranked_by) == (2, 2, "common_mean")


def test_a_missing_answer_does_not_make_a_system_look_better():
    hard = dict.fromkeys(range(5), 10.0)
    scores = {
        "complete": {**hard, 9: 1.0},
        "skips the hard ones": {9: 1.5},
    }
    ranking = rank_systems(scores, higher_is_better=False, seed=0)
    assert by_name(ranking)["skips the hard ones"].mean < by_name(ranking)["complete"].mean
    assert [s.system for s in ranking.systems] == ["complete", "skips the hard ones"]
    assert (ranking.common_questions, ranking.questions) == (1, 6)
    assert by_name(ranking)["complete"].common_mean == 1.0


def test_without_a_common_question_systems_are_ranked_two_at_a_time():
    scores = {"a": {1: 1.0, 2: 1.0}, "b": {1: 2.0, 3: 1.0}, "c": {2: 5.0, 3: 5.0}}
    ranking = rank_systems(scores, higher_is_better=False, seed=0)
    assert (ranking.common_questions, ranking.ranked_by) == (0, "win_rate")
    assert [(s.system, s.win_rate, s.comparisons) for s in ranking.systems] == [
        ("a", 1.0, 2),
        ("b", 0.5, 2),
        ("c", 0.0, 2),
    ]
    assert all(s.common_mean is None and s.common_mean_ci95 is None for s in ranking.systems)


def test_equal_systems_share_a_rank():
    scores = {"a": {1: 1.0}, "b": {1: 1.0}, "c": {1: 2.0}}
    found = by_name(rank_systems(scores, higher_is_better=False, seed=0))
    assert [found[name].rank for name in "abc"] == [1.5, 1.5, 3.0]
    assert [found[name].win_rate for name in "abc"] == [0.75, 0.75, 0.0]


def test_intervals_and_medians():
    values = [1.0, 5.0, 2.0, 8.0, 2.5]
    (found,) = rank_systems({"a": dict(enumerate(values))}, higher_is_better=False, seed=4).systems
    assert found.mean == pytest.approx(3.7)
    assert found.median == 2.5
    assert found.mean_ci95 == mean_interval(values, seed=4)
    assert found.common_mean_ci95 == mean_interval(values, seed=4)


def test_one_system_is_not_ranked():
    ranking = rank_systems({"a": {1: 2.0}}, higher_is_better=False, seed=0)
    assert ranking.ranked_by is None
    (only,) = ranking.systems
    assert (only.rank, only.win_rate, only.comparisons) == (None, None, 0)


def test_systems_that_share_no_question_with_any_other_have_no_rank():
    ranking = rank_systems({"a": {1: 2.0}, "b": {2: 1.0}}, higher_is_better=False, seed=0)
    assert ranking.ranked_by is None
    assert [s.rank for s in ranking.systems] == [None, None]
    three = {"a": {1: 2.0}, "b": {2: 1.0}, "c": {2: 2.0}}
    ranking = rank_systems(three, higher_is_better=False, seed=0)
    assert [(s.system, s.rank) for s in ranking.systems] == [("b", 1.0), ("c", 2.0), ("a", None)]


def test_a_system_without_a_score_is_left_out_and_hides_nothing():
    ranking = rank_systems({"a": {1: 1.0}, "b": {1: 2.0}, "c": {}}, higher_is_better=False, seed=0)
    assert [s.system for s in ranking.systems] == ["a", "b"]
    assert ranking.common_questions == 1
    assert rank_systems({}, higher_is_better=False, seed=0) == ((), 0, 0, None)
