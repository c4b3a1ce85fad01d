"""What a reply says, and when there is doubt which of its objects is meant."""

import contextlib
import json
import math

import hypothesis
import hypothesis.strategies as st
import pytest

from opencompass_ext.judging.base import Unit
from opencompass_ext.judging.prompts.templates import load_templates
from opencompass_ext.judging.replies import read_units, read_verdicts
from opencompass_ext.judging.reply_objects import ReplyError

WORDS = load_templates("en").words
UNITS = [Unit(1, "a"), Unit(2, "b"), Unit(3, "c")]
GOOD = {"verdicts": [{"id": i, "verdict": "yes"} for i in (1, 2, 3)]}
TEXT = json.dumps(GOOD)


def words_of(text, units=UNITS, words=WORDS):
    read = read_verdicts(units, text, words)
    return {i: verdict.word for i, verdict in read.verdicts.items()}, dict(read.problems)


ALL_YES = {1: "yes", 2: "yes", 3: "yes"}


@pytest.mark.parametrize(
    "reply",
    [
        TEXT,
        f"  \ufeff{TEXT}\n",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}```",
        f"Here are my verdicts:\n{TEXT}\nI hope that helps {{}}.",
        json.dumps(GOOD, indent=2),
        f"{TEXT} To say it again: {json.dumps(GOOD, indent=1).replace('yes', 'Yes.')}",
    ],
    ids=[
        "bare",
        "blanks and BOM",
        "fence",
        "fence without name",
        "prose",
        "indented",
        "said twice",
    ],
)
def test_fences_prose_and_repetition_are_read_over(reply):
    assert words_of(reply) == (ALL_YES, {})


@pytest.mark.parametrize(
    "reply",
    [
        f"<think>So {{}} or {TEXT.replace('yes', 'no')}?</think>{TEXT}",
        f"So {{}} or {TEXT.replace('yes', 'no')}?</think>\n\n{TEXT}",
        f"<thinking>a</thinking>{TEXT}<think>{TEXT.replace('yes', 'no')}",
        f"<Reasoning>\n{{ not json\n</Reasoning>```json\n{TEXT}\n```",
        f'<think>"verdict": "</think>{TEXT}',
    ],
    ids=["block", "closing tag only", "opening tag only", "broken braces", "open quote"],
)
def test_thinking_is_left_out(reply):
    assert words_of(reply) == (ALL_YES, {})


@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "<think>{{}}</think>{}"])
def test_tags_inside_a_json_string_are_text(around):
    facts = ["The tag </think> ends a thought.", "<think> begins one."]
    reply = around.format(json.dumps({"facts": facts}))
    assert read_units("facts", reply).units == tuple(facts)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", "it is empty"),
        ("I cannot tell.", "it holds no JSON object"),
        (TEXT.replace('"', "'"), "it holds no complete JSON object"),
        (TEXT[:-3], "it holds no complete JSON object"),
        (f"<think>{TEXT}", "it holds no JSON object outside its thinking"),
        ('{"verdict": []}', "verdicts: field required"),
        ('{"verdicts": [{"id": 1, "verdikt": "yes"}]}', "verdicts.0.verdict: field required"),
        (json.dumps([1]), "the reply: input should be"),
        ('{"verdicts": [{"id": 1, "id": 2, "verdict": "yes"}]}', "a key stands twice"),
        ('{"verdicts": [{"id": NaN, "verdict": "yes"}]}', "must be a whole number"),
        ('{"a":' * 5000, "it holds no complete JSON object|nested too deeply"),
        ("{" * 50_000, "it holds no complete JSON object"),
    ],
    ids=[
        *("empty", "prose", "single quotes", "cut", "thinking only", "wrong key", "misspelt key"),
        *("a list", "twin keys", "NaN", "deep", "braces"),
    ],
)
def test_a_reply_of_another_form_says_what_is_wrong(reply, message):
    with pytest.raises(ReplyError, match=message):
        read_verdicts(UNITS, reply, WORDS)


@pytest.mark.parametrize("value", [11, -1, True, None, ["yes"], math.pi, {"yes": 1}])
def test_a_verdict_that_is_no_word_is_refused(value):
    reply = json.dumps({"verdicts": [{"id": 1, "verdict": value}]})
    with pytest.raises(ReplyError, match=r"verdicts\.0\.verdict"):
        read_verdicts(UNITS[:1], reply, WORDS)


NO = TEXT.replace("yes", "no")
QUOTE = '{"verdicts": [{"id": 1, "verdict": "no"}]}'


@pytest.mark.parametrize(
    "reply",
    [
        f"{NO} Wait, that was a draft. {TEXT}",
        f"{TEXT}\nThe text itself says {NO}, which I leave aside.",
        f"{TEXT} It quotes {QUOTE}.",
        f"{TEXT.replace(chr(34), chr(39))} It quotes {NO}",
        f'{{"verdicts": [{{"id": 1, "verdict": null}}]}} {NO}',
        f'{{"note": {NO}, "verdicts": [{{"id": 1, "ver',
        f"{NO} Wait. {TEXT[:40]}",
        f"{NO} Wait. {TEXT[:-1]}",
    ],
    ids=[
        *("draft", "quotation", "quotation of one", "quotation beside single quotes"),
        *("quotation beside a broken one", "quotation inside", "cut behind", "not closed behind"),
    ],
)
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_reply_with_a_draft_or_a_quotation_is_no_answer(reply, is_cut):
    with pytest.raises(ReplyError):
        read_verdicts(UNITS, reply, WORDS, is_cut=is_cut)


def test_lists_that_differ_are_no_answer():
    with pytest.raises(ReplyError, match="several JSON objects that say different things"):
        read_units("facts", '{"facts": ["a"]} or rather {"facts": ["a", "b"]}')
    assert read_units("facts", '{"facts": ["a"]} {"facts": [" a ", ""]}').units == ("a",)


@pytest.mark.parametrize("behind", [" Wait, unit 2", " <think>", '{"', "\n\nSo {}"])
def test_a_reply_that_is_cut_behind_its_object_might_have_changed_its_mind(behind):
    assert words_of(TEXT) == (ALL_YES, {})
    with pytest.raises(ReplyError):
        read_verdicts(UNITS, TEXT + behind, WORDS, is_cut=True)


@pytest.mark.parametrize("around", ["{}", "{}\n\n  \n", "```json\n{}\n```", "Here:\n{}\n"])
def test_a_whole_reply_whose_padding_is_cut_counts(around):
    read = read_verdicts(UNITS, around.format(TEXT), WORDS, is_cut=True)
    assert len(read.verdicts) == 3


@pytest.mark.parametrize("form", ["{}", "Sure: {}"])
@pytest.mark.parametrize("half", ["\\ud83d", "\ud83d"], ids=["escaped", "raw"])
def test_half_a_surrogate_pair_is_no_text(form, half):
    reply = form.format(json.dumps({"facts": ["a HALF"]}).replace("HALF", half))
    with pytest.raises(ReplyError, match="half of a surrogate pair"):
        read_units("facts", reply)
    whole = form.format(json.dumps({"facts": ["a 😀"]}))
    assert read_units("facts", whole).units == ("a 😀",)


@pytest.mark.parametrize("value", [95, -0.1, "0.9", None, True, ["a"], math.nan])
def test_an_odd_field_beside_a_verdict_does_not_cost_it(value):
    item = {"id": 1, "verdict": "yes", "probability": value, "why": value, "mood": value}
    reply = json.dumps({"verdicts": [item], "confidence": value})
    read = read_verdicts(UNITS[:1], reply, WORDS, by_likelihood=True)
    assert (read.verdicts[1].word, read.verdicts[1].probability) == ("yes", None)


def test_a_probability_counts_only_where_it_was_measured():
    reply = json.dumps({"verdicts": [{"id": 1, "verdict": "no", "probability": 0.95}]})
    made_up = read_verdicts(UNITS[:1], reply, WORDS)
    measured = read_verdicts(UNITS[:1], reply, WORDS, by_likelihood=True)
    found = [read.verdicts[1].probability for read in (made_up, measured)]
    assert found == [None, 0.95]


@pytest.mark.parametrize(
    ("value", "is_read"), [("1", True), (True, False), (1.0, False), ("一", 0)]
)
def test_an_id_is_a_whole_number(value, is_read):
    reply = json.dumps({"verdicts": [{"id": value, "verdict": "yes"}]})
    if is_read:
        assert words_of(reply, UNITS[:1]) == ({1: "yes"}, {})
    else:
        with pytest.raises(ReplyError, match="whole number"):
            read_verdicts(UNITS[:1], reply, WORDS)


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        *((word, "yes") for word in ("yes", "Yes.", " yes ", "YES!", "**yes**", "“Yes”", "ｙｅｓ")),
        *((word, "yes") for word in ("y\u200bes", "yes\ufeff", "supported", "Relevant.")),
        *((word, "no") for word in ("no", "NO.", "Not supported", "irrelevant", "INCORRECT")),
        *((word, "unsure") for word in ("unsure", "Cannot tell.", "can’t tell", "IDK")),
        *((word, None) for word in ("", "A", "yes and no", "not yes", "yess", "no idea", "maybe")),
        *((word, None) for word in ("-1", "0.7", "yes, it is supported", "nope", "是")),
    ],
)
def test_a_verdict_word_is_matched_whole(said, meaning):
    assert WORDS.read(said) == meaning


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        *((word, "yes") for word in ("是", "是的。", "“支持”", "yes")),
        *((word, "no") for word in ("否", "不支持。", "不是", "无关", "No")),
        *((word, "unsure") for word in ("无法判断。", "不确定")),
        *((word, None) for word in ("是否", "也许", "是不是")),
    ],
)
def test_a_chinese_verdict_word_is_matched_whole(said, meaning):
    assert load_templates("zh").words.read(said) == meaning


@pytest.mark.parametrize(
    ("verdicts", "problems"),
    [
        ([(1, "yes"), (2, "no")], {3: "incomplete_verdicts"}),
        ([], dict.fromkeys((1, 2, 3), "incomplete_verdicts")),
        ([(1, "yes"), (2, "no"), (3, "yes"), (3, "no")], {3: "judge_error"}),
        ([(1, "yes"), (2, "no"), (3, "perhaps")], {3: "judge_error"}),
        ([(0, "yes"), (1, "no"), (2, "no")], dict.fromkeys((1, 2, 3), "judge_error")),
        ([(1, "yes"), (2, "no"), (3, "no"), (4, "no")], dict.fromkeys((1, 2, 3), "judge_error")),
        ([(3, "no"), (1, "yes"), (2, "no")], {}),
        ([(1, "yes"), (1, "Yes."), (2, "no"), (3, "no")], {}),
    ],
    ids=[
        *("one missing", "none", "contradiction", "unreadable", "counted from 0", "one too many"),
        *("another order", "said twice"),
    ],
)
def test_verdicts_belong_to_units_by_id(verdicts, problems):
    reply = json.dumps({"verdicts": [{"id": i, "verdict": word} for i, word in verdicts]})
    read = read_verdicts(UNITS, reply, WORDS)
    assert dict(read.problems) == problems
    assert read.verdicts.keys() | problems.keys() == {1, 2, 3}
    assert bool(read.error) == bool(problems)


def test_a_wrong_source_number_does_not_cost_the_verdict():
    item = {"id": 1, "verdict": "yes", "source": "the second"}
    read = read_verdicts(UNITS[:1], json.dumps({"verdicts": [item]}), WORDS)
    assert (read.verdicts[1].word, read.verdicts[1].source) == ("yes", None)


def test_units_are_kept_once_and_never_blank():
    assert read_units("facts", '{"facts": ["a ", "", "a", "b"]}').units == ("a", "b")


@hypothesis.given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_around_an_object_leaves_it_readable_or_is_an_error(before, after):
    try:
        assert words_of(before + TEXT + after) == (ALL_YES, {})
    except ReplyError:
        # Only what looks like thinking or JSON can hide it.
        assert "<" in before + after or "{" in before + after or '"' in before


@hypothesis.given(st.text())
def test_no_reply_breaks_the_reader(text):
    with contextlib.suppress(ReplyError):
        read_units("claims", text)
