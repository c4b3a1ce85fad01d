"""What a session makes of a judge's answers, good and bad."""

import pytest

from opencompass_ext.judging import Decompose, Match, ScriptedJudge, Source

SOURCE = Source("s1", "The tower stands in Paris. It opened in 1889.")
CLAIMS = ("The tower stands in Paris.", "The tower opened in 1889.", "The tower is made of cheese.")


def supported(*claims, sources=(SOURCE,)):
    return Match("supported", claims or CLAIMS, sources=tuple(sources))


def states(verdicts):
    return [verdict.is_yes for verdict in verdicts]


def test_units_and_verdicts_come_in_order(open_session):
    session = open_session()
    (claims,) = session.decompose([Decompose("claims", "One stands here. Two stands there.")])
    assert claims.units == ("One stands here.", "Two stands there.")
    first, second = session.match([supported(), supported(CLAIMS[2], CLAIMS[0])])
    assert states(first) == [True, True, False]
    assert states(second) == [False, True]
    assert [v.unit for v in first] == list(CLAIMS)
    assert first[0].source_id == "s1"
    assert first[2].source_id is None


def test_equal_questions_and_units_are_asked_once(open_session):
    judge = ScriptedJudge()
    session = open_session(judge)
    answers = session.match([supported(CLAIMS[0], CLAIMS[0]), supported(CLAIMS[0], CLAIMS[0])])
    assert states(answers[0]) == [True, True]
    assert answers[0] == answers[1]
    assert [len(call.units) for call in judge.calls] == [1]


@pytest.mark.parametrize(("per_call", "sizes"), [(1, [1, 1, 1]), (2, [2, 1]), (10, [3])])
def test_units_go_to_the_judge_in_batches(open_session, per_call, sizes):
    judge = ScriptedJudge()
    (verdicts,) = open_session(judge, units_per_call=per_call).match([supported()])
    assert states(verdicts) == [True, True, False]
    assert [len(call.units) for call in judge.calls] == sizes


def test_no_units_make_no_call(open_session):
    judge = ScriptedJudge()
    assert open_session(judge).match([Match("essential", (), query="Where?")]) == [()]
    assert judge.calls == []
