"""Long sources are read in parts, with nothing lost, and verdicts merged."""

import json

import hypothesis
import hypothesis.strategies as st
import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.judging import Decompose, Match, ScriptedJudge, Source
from opencompass_ext.judging.base import Reply, estimate_tokens
from opencompass_ext.judging.pieces import pack, split_text

FILLER = "Water flows down the long valley past mills and meadows. "


def words(text):
    return len(text.split())


@hypothesis.given(st.text(alphabet="ab .!?。\n", min_size=1).filter(str.strip), st.integers(1, 9))
def test_pieces_keep_every_character_and_the_limit(text, limit):
    pieces = split_text(text, limit, len)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(len(piece) <= limit for piece in pieces)


def test_pieces_end_where_sentences_end():
    text = "One is here. Two is there. Three is nowhere."
    assert split_text(text, 6, words) == ["One is here. Two is there.", "Three is nowhere."]
    assert split_text(text, 99, words) == [text]


def test_a_sentence_too_long_by_itself_is_cut_at_a_blank():
    pieces = split_text("a " * 50 + "end.", 20, words)
    assert all(words(piece) <= 20 for piece in pieces)
    assert "".join(pieces).replace(" ", "") == "a" * 50 + "end."


def test_groups_keep_order_and_limits():
    assert pack([3, 3, 3, 9, 1], 6) == [range(0, 2), range(2, 3), range(3, 4), range(4, 5)]
    assert pack([0, 0, 0], 0, max_count=2) == [range(0, 2), range(2, 3)]
    assert pack([], 5) == []


def test_a_source_beyond_the_context_is_read_in_parts(open_session, rows):
    judge = ScriptedJudge(context_tokens=4000, max_tokens=500)
    fillers = [f"Water flows down the long valley past the mill number {i}." for i in range(5500)]
    long = " ".join([*fillers[:2000], "The tower stands in Paris.", *fillers[2000:]])
    assert words(long) > 60_000
    claims = ("The tower stands in Paris.", "The tower is made of cheese.")
    sources = (Source("short", "Nothing is said here."), Source("long", long))
    (verdicts,) = open_session(judge).match([Match("supported", claims, sources=sources)])
    assert [v.is_yes for v in verdicts] == [True, False]
    assert verdicts[0].source_id == "long"
    parts = [row["part"] for row in rows()]
    assert parts == [[i + 1, len(parts)] for i in range(len(parts))]
    assert len(parts) > 40
    assert len(verdicts[0].calls) == len(parts)
    assert all(estimate_tokens(c.messages[0]["content"]) + 500 <= 4000 for c in judge.calls)
    read = " ".join(text for call in judge.calls for text in call.texts["sources"])
    assert read.split() == " ".join(s.text for s in sources).split()


def test_a_part_without_a_verdict_leaves_a_no_open_but_not_a_yes(open_session):
    text = "The tower stands in Paris. " + FILLER * 100 + "Cheese is yellow."
    judge = ScriptedJudge(context_tokens=1200, max_tokens=200, faults={"yellow": ["timeout"]})
    claims = ("The tower stands in Paris.", "The tower is made of cheese.")
    question = Match("supported", claims, sources=(Source("s", text),))
    (verdicts,) = open_session(judge).match([question])
    assert [v.is_yes for v in verdicts] == [True, None]
    assert verdicts[1].reason == "judge_timeout"


def test_many_sources_that_do_not_fit_together_are_asked_in_groups(open_session):
    judge = ScriptedJudge(context_tokens=1500, max_tokens=200)
    sources = tuple(Source(f"s{i}", f"{FILLER * 8} Item number {i}.") for i in range(8))
    (verdicts,) = open_session(judge).match(
        [Match("supported", ("Item number 6.",), sources=sources)]
    )
    assert verdicts[0].is_yes
    assert [len(call.texts["sources"]) for call in judge.calls] != [8]
    assert sum(len(call.texts["sources"]) for call in judge.calls) == 8


def test_a_unit_beyond_the_context_is_judged_in_parts(open_session):
    judge = ScriptedJudge(context_tokens=1500, max_tokens=200)
    chunk = FILLER * 200 + "The tower stands in Paris."
    question = Match("essential", (chunk, FILLER), query="Where is the tower?")
    (verdicts,) = open_session(judge).match([question])
    assert [v.is_yes for v in verdicts] == [True, False]
    assert [v.unit for v in verdicts] == [chunk, FILLER]
    assert len(judge.calls) > 1


def test_equal_parts_are_asked_once(open_session):
    judge = ScriptedJudge(context_tokens=1200, max_tokens=200)
    question = Match(
        "supported", ("The tower stands in Paris.",), sources=(Source("s", FILLER * 99),)
    )
    (verdict,) = open_session(judge).match([question])[0]
    assert verdict.is_yes is False
    assert len(judge.calls) <= 2


def test_units_of_a_long_text_come_from_all_its_parts_in_order(open_session, rows):
    sentences = [f"The valley number {i} has a river." for i in range(300)]
    judge = ScriptedJudge(max_tokens=500)
    (found,) = open_session(judge).decompose([Decompose("facts", " ".join(sentences))])
    assert found.units == tuple(sentences)
    assert len(rows()) > 5
    assert rows()[0]["part"] == [1, len(rows())]


def test_a_long_text_declines_only_if_all_of_it_does(open_session):
    class Declines(ScriptedJudge):
        def ask(self, calls):
            for number, call in enumerate(calls):
                refuses = "cheese" in call.texts["text"][0]
                said = {"refusal": refuses, "claims": [] if refuses else ["Water flows."]}
                yield number, Reply(json.dumps(said), "stop")

    text = FILLER * 60 + "I know nothing of cheese."
    (found,) = open_session(Declines(max_tokens=300)).decompose([Decompose("claims", text)])
    assert (found.units, found.is_refusal) == (("Water flows.",), False)


def test_one_part_without_units_makes_the_whole_null(open_session):
    text = FILLER * 60 + "Cheese is yellow."
    judge = ScriptedJudge(max_tokens=300, faults={"yellow": ["timeout"]})
    (found,) = open_session(judge).decompose([Decompose("facts", text)])
    assert (found.units, found.reason) == (None, "judge_timeout")


def test_replies_too_short_for_any_list_are_a_mistake_of_the_config(open_session):
    session = open_session(ScriptedJudge(max_tokens=63))
    with pytest.raises(
        ConfigError, match="max_tokens=63 of the judge is too little for a list of facts: give"
    ):
        session.decompose([Decompose("facts", "It is here.")])
    source = Source("s", "It is here.")
    assert session.match([Match("supported", ("It is here.",), sources=(source,))])[0][0].is_yes


@pytest.mark.parametrize("context_tokens", [100, 700])
def test_a_context_without_room_for_any_text_is_a_reason_not_a_loop(open_session, context_tokens):
    judge = ScriptedJudge(context_tokens=context_tokens, max_tokens=500)
    session = open_session(judge)
    (verdicts,) = session.match([Match("covers", ("Where?",), sources=(Source("s", "Here."),))])
    (found,) = session.decompose([Decompose("facts", "It is here.")])
    assert (verdicts[0].is_yes, verdicts[0].reason) == (None, "too_long_for_judge")
    assert (found.units, found.reason) == (None, "too_long_for_judge")
    assert judge.calls == []


@pytest.mark.parametrize("kind", ["covers", "supported"])
def test_half_a_claim_or_question_is_not_judged_for_the_whole(open_session, kind):
    judge = ScriptedJudge(context_tokens=1200, max_tokens=200)
    question = Match(kind, (FILLER * 99, FILLER), sources=(Source("s", FILLER),))
    (verdicts,) = open_session(judge).match([question])
    assert [(v.is_yes, v.reason) for v in verdicts] == [(None, "too_long_for_judge"), (True, None)]


def test_half_a_sentence_is_not_compared_for_the_whole(open_session):
    judge = ScriptedJudge(context_tokens=1200, max_tokens=200)
    question = Match("same", (FILLER,), sources=(Source("s", FILLER * 99),))
    (verdict,) = open_session(judge).match([question])[0]
    assert (verdict.is_yes, verdict.reason) == (None, "too_long_for_judge")
    assert judge.calls == []


@pytest.mark.parametrize("name", ["smollm2_path", "gemma3_path"])
@pytest.mark.parametrize(
    "text",
    [
        FILLER * 9,
        "\n".join(f"{i * 7919} | {i / 7:.4f} | -{i}" for i in range(60)),
        json.dumps([{"id": i, "name": "tea", "price": [i, None]} for i in range(40)], indent=1),
        "塔在巴黎。它于1889年开放，每年有数百万人参观。" * 9,
        "Башня стоит в Париже. البرج في باريس. यह मीनार पेरिस में है।" * 5,
    ],
    ids=["prose", "numbers", "JSON", "Chinese", "other scripts"],
)
def test_an_estimate_is_not_below_what_tokenizers_count(request, name, text):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(request.getfixturevalue(name))
    assert len(tokenizer(text, add_special_tokens=False)["input_ids"]) <= estimate_tokens(text)
