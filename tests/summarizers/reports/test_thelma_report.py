"""The THELMA report of one and of two systems, from results that an evaluator made."""

import pytest

from opencompass_ext.evaluators import ThelmaEvaluator
from opencompass_ext.summarizers.reports.render import to_markdown
from opencompass_ext.summarizers.reports.thelma import thelma_report

NAMES = [f"number{n}" for n in range(24)]
ROWS = [
    {
        "id": name,
        "query": f"What is {name}?",
        "sources": [{"id": "1", "text": f"It is said that {name} is a prime."}],
    }
    for name in NAMES
]


@pytest.fixture
def results_of():
    """Return a function from responses to a system's results."""

    def results_of(responses, judge=None, **options):
        judge_cfg = {"type": "ScriptedJudge", **(judge or {})}
        return ThelmaEvaluator(judge_cfg, **options).score(responses, ROWS[: len(responses)])

    return results_of


@pytest.fixture
def faithful(results_of):
    return results_of([f"{name} is a prime." for name in NAMES])


@pytest.fixture
def careless(results_of):
    return results_of([f"{name} is a banana." for name in NAMES])


def section(report, title):
    return next(s for s in report.sections if s.title == title)


def rows_of(found):
    return {row[0].split()[0]: row[1:] for row in found.table.rows}


def test_metrics_stand_beside_how_many_rows_they_are_taken_over(faithful, careless):
    report = thelma_report("primes", {"a": faithful, "b": careless})
    assert report.title == "THELMA on primes"
    shown = rows_of(section(report, "Metrics"))
    assert shown["groundedness"][1:] == (
        "1.000 [1.000, 1.000] (24/24)",
        "0.000 [0.000, 0.000] (24/24)",
    )
    assert shown["refusal_rate"][1:] == ("0.000 [0.000, 0.000] (24/24)",) * 2


def test_null_rows_unsure_verdicts_and_failures_are_told(results_of):
    responses = ["I don't know.", "number1 is a prime.", "number2 is a prime.", "number3, no."]
    judge = {
        "verdicts": {"number1 is a prime.": "unsure"},
        "faults": {"number2 is a prime.": ["prose"] * 9},
    }
    found = results_of(responses, judge)
    notes = section(thelma_report("d", {"a": found}), "Metrics").notes
    assert any("a, groundedness: rows without a value: no_claims: 1" in note for note in notes)
    assert any('verdicts are "cannot tell", which counts as no' in note for note in notes)
    assert any("a: the judge left questions on 1 of 4 rows" in note for note in notes)


def test_the_diagnosis_names_the_component_to_mend(results_of):
    found = results_of(["Bananas."] * 4)
    shown = section(thelma_report("d", {"a": found}), "Diagnosis")
    told = {row[1]: row for row in shown.table.rows}
    assert told["not_retrieved"][2:4] == ("yes", "4/4")
    assert told["not_retrieved"][5] == "retriever or source text"
    assert "Low is below 0.5, high is 0.7 or more" in shown.notes[0]


def test_cut_offs_that_differ_are_told_by_system(results_of):
    usual, strict = results_of(["Bananas."] * 4), results_of(["Bananas."] * 4, low=0.6, high=0.9)
    shown = section(thelma_report("d", {"a": usual, "b": strict, "c": usual}), "Diagnosis")
    assert [note.partition(";")[0] for note in shown.notes[:2]] == [
        "a, c: low is below 0.5, high is 0.7 or more",
        "b: low is below 0.6, high is 0.9 or more",
    ]


def test_a_set_without_any_pattern_says_so(results_of):
    found = results_of(["number0 is a prime."], metrics=["groundedness"])
    shown = section(thelma_report("d", {"a": found}), "Diagnosis")
    assert shown.table is None
    assert shown.text == ("No pattern of low and high metrics holds.",)


def test_two_systems_are_compared_on_common_rows_with_interval_and_p_value(faithful, careless):
    shown = section(thelma_report("d", {"a": faithful, "b": careless}), "a against b")
    assert rows_of(shown)["groundedness"] == (
        *("1.000", "0.000", "+1.000 [+1.000, +1.000]", "<0.001", "24 (24, 24)"),
    )
    assert rows_of(shown)["source_precision_chunk"][2:4] == ("+0.000 [+0.000, +0.000]", "1.000")
    assert not any("Warning" in note for note in shown.notes)


def test_few_common_rows_are_warned_about_and_coverage_is_shown(faithful, results_of):
    broken = results_of(
        [f"{name} is a prime." for name in NAMES],
        judge={"faults": {f"{name} is a prime.": ["prose"] * 99 for name in NAMES[5:]}},
        metrics=["groundedness"],
    )
    shown = section(thelma_report("d", {"a": faithful, "b": broken}), "a against b")
    assert rows_of(shown)["groundedness"][-1] == "5 (24, 5)"
    assert any("fewer than 20 common rows for every metric" in note for note in shown.notes)


def test_systems_judged_in_different_ways_are_not_compared_silently(faithful, results_of):
    other = results_of([f"{name} is a prime." for name in NAMES], lang="zh", judge={"lang": "zh"})
    shown = section(thelma_report("d", {"a": faithful, "b": other}), "a against b")
    assert "judged in different ways" in shown.notes[-1]


def test_results_without_rows_cannot_be_compared(faithful, careless):
    bare = {key: value for key, value in careless.items() if key != "details"}
    shown = section(thelma_report("d", {"a": faithful, "b": bare}), "a against b")
    assert "hold no single rows" in shown.text[0]


def test_comparisons_of_many_systems_stand_in_the_file_only(faithful):
    report = thelma_report("d", dict.fromkeys("abcd", faithful))
    against = [s for s in report.sections if " against " in s.title]
    assert len(against) == 6
    assert all(s.is_detail for s in against)


def test_the_file_tells_what_the_judge_was_asked_and_which_claims_failed(careless):
    report = thelma_report("d", {"a": careless})
    judge = section(report, "Judge of a")
    assert rows_of(judge)["supported"][0] == "judge"
    assert "type=ScriptedJudge" in judge.text[0]
    claims = section(report, "Claims of a that the sources do not support")
    assert claims.table.rows[0] == ("number0", "number0 is a banana.", "no", "by rule")
    assert len(claims.table.rows) == 20
    assert claims.notes == ("and 4 more: the evidence of each row has them all",)


def test_markdown_holds_all_sections(faithful, careless):
    text = to_markdown(thelma_report("d", {"a": faithful, "b": careless}))
    for title in ("Metrics", "Diagnosis", "a against b", "Judge of a", "Claims of b"):
        assert f"## {title}" in text
