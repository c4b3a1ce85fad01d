"""A judge without a service: likelihoods worked out by hand, and one real small model."""

import json
import math

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.judging import Decompose, LocalJudge, Match, Source
from opencompass_ext.judging.base import Call
from opencompass_ext.judging.prompts.formats import decompose_schema
from opencompass_ext.models import BaseModel
from opencompass_ext.records import GeneratedText, Likelihood, ScoredText

SOURCE = Source("s1", "Tea is hot.")
EMBEDDED = dict(type="HuggingFacewithChatTemplate", path="embedded:smollm2-135m-instruct")


class WordModel(BaseModel):
    """Gives words the probabilities it is told; generates what it is told."""

    def __init__(self, probabilities, answer="", path="words"):
        self.probabilities, self.answer, self.path = probabilities, answer, path
        self.schemas, self.scored = [], []

    def identity(self):
        return {"path": self.path, "probabilities": self.probabilities}

    def chat_text(self, messages):
        return "".join(f"[{m['role']}] {m['content']}\n" for m in messages) + "[assistant] "

    def get_token_len(self, text):
        return len(text.split())

    def score_spans(self, texts, *, batch_rows=None, long_text=None, **options):
        assert long_text == "error"
        for i, text in enumerate(texts):
            ((start, end),) = text.spans["word"]
            assert text.cuts == (start,)
            self.scored.append(text.text)
            p = next((p for t, p in self.probabilities.items() if t in text.text), {})
            nll = -math.log(p.get(text.text[start:end], 1e-6))
            yield {i: ScoredText({"word": Likelihood(nll, 1)}, text_tokens=9)}

    def generate_texts(self, requests, *, max_out_len, json_schema=None, **options):
        self.schemas.append(json_schema)
        for i in reversed(range(len(requests))):
            yield {i: GeneratedText(self.answer, 5, 7, "stop")}


@pytest.fixture
def word_judge():
    def build(probabilities=None, answer="", **options):
        config = dict(type=WordModel, probabilities=probabilities or {}, answer=answer)
        return LocalJudge(config, **options)

    return build


def test_a_verdict_is_the_likelier_word_and_its_share_of_both(open_session, word_judge, rows):
    judge = word_judge(
        {
            "Tea burns.": {"Yes": 0.2, "yes": 0.1, "No": 0.05, "no": 0.05},
            "Tea cools.": {"Yes": 0.01, "yes": 0.01, "No": 0.05, "no": 0.01},
        }
    )
    units = ("Tea burns.", "Tea cools.")
    (verdicts,) = open_session(judge).match([Match("supported", units, sources=(SOURCE,))])
    assert [v.is_yes for v in verdicts] == [True, False]
    assert [v.probability for v in verdicts] == [0.75, 0.25]
    assert verdicts[0].source_id == "s1"
    assert [row["reply_format"] for row in rows()] == ["likelihood"] * 2


def test_prompts_of_one_question_differ_only_behind_the_source(open_session, word_judge):
    judge = word_judge({"Tea": {"Yes": 0.5}})
    units = ("Tea burns.", "Tea cools.")
    open_session(judge).match([Match("supported", units, sources=(SOURCE,))])
    first, second = (next(t for t in judge._model.scored if unit in t) for unit in units)
    shared = next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    assert shared > first.index("Tea is hot.")
    assert first[:shared].endswith("Tea ")


def test_words_without_a_finite_likelihood_are_null_with_a_reason(open_session, word_judge):
    judge = word_judge({"Tea": dict.fromkeys(["Yes", "yes", "No", "no"], math.nan)})
    question = Match("supported", ("Tea burns.",), sources=(SOURCE,))
    (verdict,) = open_session(judge).match([question])[0]
    assert (verdict.is_yes, verdict.probability, verdict.reason) == (None, None, "judge_error")


def test_units_are_generated_within_a_schema_without_empty_lists(open_session, word_judge):
    judge = word_judge(answer='{"questions":["What?"]}')
    questions = [Decompose("subquestions", f"What is {i}?") for i in range(3)]
    units = [d.units for d in open_session(judge).decompose(questions)]
    assert units == [("What?",)] * 3
    (schema,) = judge._model.schemas
    assert schema["properties"]["questions"]["minItems"] == 1


@pytest.mark.parametrize(
    "units",
    [["x" * 400], ["One.", "x" * 400], ["a", "b", "c"]],
    ids=["a unit", "the last unit", "the list"],
)
def test_what_the_grammar_ended_is_never_a_list_of_units(open_session, word_judge, units):
    judge = word_judge(answer=json.dumps({"facts": units}), most_units=3)
    (found,) = open_session(judge).decompose([Decompose("facts", "A sentence.")])
    assert (found.units, found.reason) == (None, "judge_truncated")
    judge = word_judge(answer=json.dumps({"facts": ["x" * 399, "b"]}), most_units=3)
    (found,) = open_session(judge, transcript="2.jsonl").decompose([Decompose("facts", "A.")])
    assert found.units == ("x" * 399, "b")


def test_sentences_can_be_the_units_without_a_model(open_session, word_judge, rows):
    session = open_session(word_judge(units="sentences"))
    asked = [Decompose(kind, "One? Two.") for kind in ("claims", "facts", "subquestions")]
    assert [found.units for found in session.decompose(asked)] == [("One?", "Two.")] * 3
    assert {row["reply_format"] for row in rows()} == {"sentences"}


def test_only_a_refusal_may_have_no_claims(open_session, word_judge):
    judge = word_judge(answer='{"refusal":true,"claims":[]}')
    (claims,) = open_session(judge).decompose([Decompose("claims", "I do not know.")])
    assert (claims.units, claims.is_refusal) == ((), True)
    answers, refuses = judge._model.schemas[0]["anyOf"]
    assert answers["properties"]["claims"]["minItems"] == 1
    assert refuses["properties"]["refusal"] == {"const": True}


def test_chinese_prompts_compare_chinese_words(open_session, word_judge):
    judge = word_judge({"茶": {"是": 0.3, "否": 0.1}})
    question = Match("supported", ("茶很热。",), sources=(Source("s", "茶是热的。"),))
    (verdict,) = open_session(judge, lang="zh").match([question])[0]
    assert (verdict.is_yes, verdict.probability) == (True, 0.75)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": "words"}, "units must be one of model, sentences, got 'words'"),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1, got 0"),
        ({"context_tokens": "9"}, "context_tokens must be a whole number of at least 1, got '9'"),
        ({"model": dict(type="NoSuchModel")}, "unknown model type 'NoSuchModel'"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(ConfigError, match=message):
        LocalJudge(**{"model": EMBEDDED, **options})


@pytest.fixture(scope="module")
def real_judge():
    return LocalJudge(EMBEDDED, max_tokens=96)


def test_a_small_real_model_judges_the_same_whatever_stands_beside(open_session, real_judge):
    claim = "Tea is hot."
    alone = Match("supported", (claim,), sources=(SOURCE,))
    among = Match("supported", ("Milk is cold.", claim), sources=(SOURCE,))
    (first,) = open_session(real_judge, transcript="a.jsonl").match([alone])
    (second,) = open_session(real_judge, transcript="b.jsonl").match([among])
    assert first[0].is_yes is second[1].is_yes
    assert first[0].probability == pytest.approx(second[1].probability, abs=2e-4)
    assert 0 < first[0].probability < 1


def test_a_small_real_model_generates_within_the_schema(real_judge):
    schema = decompose_schema("subquestions")
    message = {"role": "user", "content": "Where is Rome?"}
    call = Call("subquestions", (message,), schema, max_tokens=12, prompt_version="")
    ((number, reply),) = real_judge.ask([call])
    assert number == 0
    assert reply.text.startswith('{"questions":["')
    assert (reply.output_tokens, reply.finish_reason) == (12, "length") or reply.text[-2:] == "]}"
