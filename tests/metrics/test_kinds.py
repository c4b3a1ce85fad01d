import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.metrics.kinds import best_kinds, is_in_order

QUESTIONS = st.lists(
    st.fixed_dictionaries({kind: st.integers(-2, 2) for kind in ("a", "b", "c")}), max_size=20
)


@given(QUESTIONS, st.booleans())
def test_every_question_has_one_best_answer_in_all(questions, higher_is_better):
    found = best_kinds(questions, higher_is_better=higher_is_better)
    assert sum(found.values()) == pytest.approx(len(questions))


@given(QUESTIONS)
def test_the_direction_is_that_of_the_negated_score(questions):
    turned = [{kind: -score for kind, score in question.items()} for question in questions]
    assert best_kinds(turned, higher_is_better=True) == best_kinds(
        questions, higher_is_better=False
    )
    for question, negated in zip(questions, turned, strict=True):
        assert is_in_order(question, "abc", higher_is_better=False) == is_in_order(
            negated, "abc", higher_is_better=True
        )


def test_equal_scores_share_a_question():
    found = best_kinds([{"a": 1, "b": 1, "c": 2}, {"a": 3, "b": 1, "c": 2}], higher_is_better=False)
    assert found == {"a": 0.5, "b": 1.5, "c": 0.0}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [((1, 2, 3), True), ((1, 2, 2), False), ((2, 1, 3), False), ((1, 3, 2), False)],
)
def test_an_order_is_strict(scores, expected):
    question = dict(zip("abc", scores, strict=True))
    assert is_in_order(question, "abc", higher_is_better=False) is expected
