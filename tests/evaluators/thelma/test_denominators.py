"""Every unit that was sent counts, whatever the judge made of it."""

import pytest

CLAIMS = ["Tea is hot.", "Tea is wet.", "Tea is green.", "Tea is old.", "Tea is sweet."]
SUPPORTED = ["groundedness"]


@pytest.fixture
def five_claims(evaluate, row):
    """Return a function that judges the groundedness of five claims."""

    def five_claims(**judge):
        answer = row(query="How is tea?", response="Tea is hot, wet, green, old and sweet.")
        units = {answer["response"]: CLAIMS}
        return evaluate(answer, judge={"units": units, **judge}, metrics=SUPPORTED)

    return five_claims


def test_a_missing_verdict_is_asked_for_again(five_claims):
    verdicts = {**dict.fromkeys(CLAIMS, "yes"), CLAIMS[0]: "no", CLAIMS[1]: "no"}
    result = five_claims(verdicts=verdicts, faults={CLAIMS[4]: ["missing"]})
    assert result["groundedness"] == 0.6
    assert result["usage"]["supported"]["judge"]["calls"] == 2


def test_a_verdict_that_stays_missing_makes_the_metric_null_and_not_four_of_four(five_claims):
    result = five_claims(
        verdicts=dict.fromkeys(CLAIMS, "yes"),
        faults={CLAIMS[4]: ["missing"] * 9},
    )
    assert result["groundedness"] is None
    assert result["details"][0]["reasons"] == {"groundedness": "incomplete_verdicts"}
    assert result["coverage"]["groundedness"]["null_rows"] == {"incomplete_verdicts": 1}
    said = [claim["supported"]["verdict"] for claim in result["details"][0]["claims"]]
    assert said == ["yes", "yes", "yes", "yes", None]


def test_cannot_tell_is_no_and_is_counted(five_claims):
    said = ["yes", "yes", "yes", "no", "unsure"]
    result = five_claims(verdicts=dict(zip(CLAIMS, said, strict=True)))
    assert result["groundedness"] == 0.6
    assert result["counts"]["unsure_verdicts"] == 1
    assert result["details"][0]["unsure_verdicts"] == 1
    shown = [claim["supported"]["verdict"] for claim in result["details"][0]["claims"]]
    assert shown == said


@pytest.mark.parametrize("word", ["yes", "Yes.", " yes ", "YES!"])
def test_a_yes_is_a_yes_however_it_is_written(five_claims, word):
    assert five_claims(verdicts=dict.fromkeys(CLAIMS, word))["groundedness"] == 1.0


@pytest.mark.parametrize("word", ["no", "No.", "irrelevant", "not supported", "INCORRECT"])
def test_a_no_is_a_no_although_it_holds_the_word_for_yes(five_claims, word):
    result = five_claims(verdicts={**dict.fromkeys(CLAIMS, "yes"), CLAIMS[2]: word})
    assert result["groundedness"] == 0.8


@pytest.mark.parametrize("word", ["A", "11", "-1", "NaN", "yes, because B"])
def test_a_word_that_is_no_verdict_is_neither_yes_nor_no(five_claims, word):
    result = five_claims(verdicts={**dict.fromkeys(CLAIMS, "yes"), CLAIMS[2]: word})
    assert result["groundedness"] is None
    assert result["reasons"]["groundedness"] == "judge_error"
    assert result["counts"]["unreadable_verdicts"] == 1


def test_facts_of_the_source_that_the_answer_leaves_out_are_no_contradictions(evaluate, row):
    facts = [f"Fact number{n} holds." for n in range(10)]
    answer = row(query="Facts?", sources=[" ".join(facts)], response=" ".join(facts[:5]))
    assert evaluate(answer, metrics=SUPPORTED)["groundedness"] == 1.0


def test_facts_are_pooled_over_sources(evaluate, row):
    sources = ["Green A. Green B. Green C.", "Yellow."]
    units = {sources[0]: ["Green A.", "Green B.", "Green C."], sources[1]: ["Yellow."]}
    result = evaluate(
        row(query="Is it green?", sources=sources),
        judge={"units": units},
        metrics=["source_precision_fact"],
    )
    assert result["source_precision_fact"] == 0.75


def test_sub_questions_may_be_answered_by_different_sources(evaluate, row):
    question = row(query="q", sources=["first", "second"], response="r")
    verdicts = {"One?": "no", "Two?": "yes", "Three?": "yes"}
    judge = {"units": {"q": list(verdicts)}, "verdicts": verdicts}
    result = evaluate(question, judge=judge, metrics=["source_query_coverage"])
    assert result["source_query_coverage"] == pytest.approx(2 / 3)
    covered = result["details"][0]["subquestions"][1]["covered_by"]
    assert {source: v["verdict"] for source, v in covered.items()} == {"1": "yes", "2": "yes"}


def test_joint_coverage_asks_once_for_all_sources(evaluate, judges, row):
    question = row(query="Where grows green tea?", sources=["Green leaves.", "Grows in Japan."])
    apart = evaluate(question, metrics=["source_query_coverage"])
    together = evaluate(question, metrics=["source_query_coverage"], joint=True)
    assert [len([c for c in j.calls if c.kind == "covers"]) for j in judges] == [2, 1]
    assert apart["judging"]["joint"] is False
    assert together["judging"]["joint"] is True
    assert "verdict" in together["details"][0]["subquestions"][0]["covered_by"]


def test_self_distinctness_is_taken_over_pairs_and_as_printed_on_request(evaluate, row):
    answer = row(response="Same words here. Same words here. Other things there.")
    metrics = ["response_self_distinctness"]
    result = evaluate(answer, metrics=metrics)
    assert result["response_self_distinctness"] == pytest.approx(2 / 3)
    two = row(response="Alpha words. Other things.")
    assert evaluate(two, metrics=metrics, literal_eq7=True)["response_self_distinctness"] == 0.5
