import json

import pytest

from opencompass_ext.evaluators import GPTScoreEvaluator, PPLqaEvaluator
from opencompass_ext.summarizers import DefaultSummarizer
from opencompass_ext.summarizers.reports import REPORTS
from opencompass_ext.summarizers.reports.render import to_markdown
from opencompass_ext.summarizers.reports.report import UnfitResults

SYSTEMS = {"good": 1.0, "fair": 1.4, "bad": 1.8}


def answered(kind="votes", swap=False):
    """Make data set and predictions: 8 questions, three systems, the longest answer is the best."""
    test_set, columns = [], {"q": [], "a_given_q": [], "a": []}
    votes = [
        {"a": "good", "b": "fair", "winner": "a"},
        {"a": "fair", "b": "bad", "winner": "a"},
        {"a": "good", "b": "bad", "winner": "tie"},
    ]
    for number in range(8):
        for place, (system, h) in enumerate(SYSTEMS.items()):
            test_set.append(
                {
                    "id": f"q{number}",
                    "model": system,
                    "answer": "x" * (30 - 10 * place + number),
                    "category": "even" if number % 2 == 0 else "odd",
                    "preferences": votes if kind == "votes" else [],
                    "rank": place + 1 if kind == "ranks" else None,
                    "grounded": int(place == 0) if kind == "grounded" else None,
                }
            )
            h = {"good": 1.4, "fair": 1.0, "bad": 1.8}[system] if swap else h
            h += 0.02 * number
            for name, mean, tokens in (("q", h, 5), ("a_given_q", h, 10), ("a", 0.1, 10)):
                columns[name].append({"ppl": mean * tokens, "token_len": tokens})
    return test_set, columns


def results_of(**options):
    test_set, columns = answered(**options)
    return PPLqaEvaluator(resamples=50).evaluate(1, 1, test_set, test_set=test_set, **columns)


@pytest.fixture
def report_of():
    def report_of(*results, dataset="d"):
        named = {f"m{number}": of_model for number, of_model in enumerate(results, start=1)}
        return REPORTS["pplqa"](dataset, named)

    return report_of


def section(report, start):
    return next(s for s in report.sections if s.title.startswith(start))


def column(table, heading):
    number = [c.heading for c in table.columns].index(heading)
    return [row[number] for row in table.rows]


def test_systems_stand_in_order_with_intervals_and_counts(report_of):
    report = report_of(results_of())
    table = section(report, "Systems").table
    assert column(table, "system") == ["good", "fair", "bad"]
    assert column(table, "rank") == ["1", "2", "3"]
    assert column(table, "n") == ["8", "8", "8"]
    assert column(table, "win rate ↑") == ["1.000", "0.500", "0.000"]
    assert column(table, "people's win rate ↑") == ["1.000", "0.500", "0.000"]
    assert all("[" in cell for cell in column(table, "pplqa ↓ mean"))
    assert "on common questions" not in [c.heading for c in table.columns]


def test_all_rivals_stand_in_the_table_of_agreement(report_of):
    table = section(report_of(results_of()), "Agreement with people's pref").table
    assert column(table, "score") == [
        "pplqa ↓",
        "signed_gap ↓",
        "ratio ↓",
        "ppl_a_given_q ↓",
        "pmi_per_token ↑",
        "explained ↑",
        "ppl_a ↓",
        "longer wins",
    ]
    assert column(table, "accuracy ↑")[0].startswith("1.000 [")
    assert column(table, "accuracy ↑")[-1].startswith("1.000 [")
    assert column(table, "minus that of length")[0] == "+0.000 [+0.000, +0.000]"


def test_it_says_plainly_that_length_is_not_beaten(report_of):
    said = " ".join(section(report_of(results_of()), "What it says").text)
    assert "pplqa agrees with 1.000" in said
    assert "pplqa does not beat the length baseline: difference in accuracy +0.000" in said


def test_ties_are_counted_and_one_vote_a_pair_is_said(report_of):
    notes = section(report_of(results_of()), "Agreement with people's pref").notes
    assert notes[0] == "16 votes on 8 questions, the same for every score. Ties left out: 8."
    assert "Each pair has one vote" in notes[1]


def test_categories_are_details(report_of):
    report = report_of(results_of())
    assert section(report, "MCC by category, per vote").is_detail
    found = section(report, "Accuracy by category, per vote")
    assert found.is_detail
    assert [c.heading for c in found.table.columns] == ["score", "all (16)", "even (8)", "odd (8)"]


def test_ranks_and_groundedness_have_their_sections(report_of):
    ranks = section(report_of(results_of(kind="ranks")), "Agreement with people's ranks").table
    assert column(ranks, "tau-b ↑, pooled")[0].startswith("1.000 [")
    grounded = section(report_of(results_of(kind="grounded")), "Grounded answers")
    assert column(grounded.table, "AUC ↑")[0].startswith("1.000 [")
    assert grounded.notes[0] == "24 labelled answers, 8 of them grounded."


def test_one_model_has_no_table_of_models(report_of):
    report = report_of(results_of())
    assert report.title == "PPLqa: d, m1"
    assert not any(s.title == "Systems by each model" for s in report.sections)


def test_several_models_are_compared(report_of):
    report = report_of(results_of(), results_of(swap=True))
    assert report.title == "PPLqa: d, 2 models"
    found = section(report, "Systems by each model")
    assert column(found.table, "system") == ["good", "fair", "bad"]
    assert column(found.table, "rank: m1") == ["1", "2", "3"]
    assert column(found.table, "rank: m2") == ["2", "1", "3"]
    assert column(found.table, "mean rank") == ["1.5", "1.5", "3"]
    assert "m1 and m2: tau-b 0.333, p 1.000, over 3 systems." in found.notes
    assert any(s.title == "Systems · m2" for s in report.sections)
    people = section(report, "Agreement with people's preferences by each model")
    assert column(people.table, "model") == ["m1", "m2"]
    assert [cell[:5] for cell in column(people.table, "accuracy ↑")] == ["1.000", "0.500"]


def test_what_is_left_out_is_listed(report_of):
    test_set, columns = answered()
    columns["a"][0] = {"ppl": None, "token_len": 10, "reason": "non_finite_nll"}
    results = PPLqaEvaluator(resamples=50).evaluate(1, 1, test_set, test_set=test_set, **columns)
    notes = section(report_of(results), "What is left out").notes
    assert notes[:2] == ("Answers without a score: 1 of 24.", "non_finite_nll: 1")


def test_an_empty_set_still_makes_a_report(report_of):
    nothing = PPLqaEvaluator().evaluate(1, 1, [], test_set=[], q=[], a_given_q=[], a=[])
    assert nothing["reasons"] == {"pplqa": "no_rows", "pplqa_ci95": "no_rows"}
    assert "# PPLqa: d" in to_markdown(report_of(nothing))


def test_results_of_another_kind_are_refused(report_of):
    with pytest.raises(UnfitResults, match="no 'analysis'"):
        report_of({"pplqa": 1.0})


@pytest.fixture
def summarize(run_folder, save, capsys):
    """Summarize results of models on one data set; return what is printed and the report."""

    def summarize(**results):
        for model, content in results.items():
            save(model, "d1", content)
        models = [{"abbr": model} for model in results]
        DefaultSummarizer().summarize(run_folder, models, [{"abbr": "d1"}], [])
        path = run_folder.report("pplqa", "d1")
        file = path.read_text(encoding="utf-8") if path.exists() else None
        return capsys.readouterr().out, file

    return summarize


def test_the_summary_prints_the_report_and_writes_it(summarize, run_folder):
    printed, file = summarize(m1=results_of())
    assert "PPLqa: d1, m1" in printed
    assert "does not beat the length baseline" in printed
    assert str(run_folder.report("pplqa", "d1")) in printed
    assert file.startswith("# PPLqa: d1, m1\n")
    assert "## Accuracy by category" in file
    # The main table stays, and calls its intervals what they are.
    assert "longer_wins" in printed
    assert "95 % bootstrap interval over questions" in printed


def test_a_model_without_results_does_not_hide_the_others(summarize):
    printed, file = summarize(m1=results_of(), m2="{")
    assert "# PPLqa: d1, m1\n" in file
    assert "DAMAGED" in printed


def test_reports_are_made_apart(summarize, run_folder):
    test_set, _ = answered()
    column = [{"ppl": 3.0, "token_len": 2}] * len(test_set)
    other = GPTScoreEvaluator(resamples=50).evaluate(
        1, 1, test_set, test_set=test_set, gptscore=column
    )
    _, file = summarize(m1=results_of(), m2=other)
    assert "# PPLqa: d1, m1\n" in file
    assert run_folder.report("gptscore", "d1").read_text(encoding="utf-8").startswith("# GPTScore")


def test_a_report_that_nobody_knows_is_named(summarize):
    printed, file = summarize(m1={"x": 1.0, "report": "pplqq"})
    assert "name the report 'pplqq': did you mean 'pplqa'?" in printed
    assert file is None


def test_results_that_do_not_fit_their_report_are_said_to(summarize):
    printed, file = summarize(m1={"x": 1.0, "report": "pplqa"})
    assert "its results have no 'analysis'; evaluate again (-m eval -r)" in printed
    assert file is None


def test_results_that_lack_a_key_deep_inside_are_said_to(summarize):
    results = json.loads(json.dumps(results_of()))
    del results["analysis"]["systems"]["systems"][0]["mean_ci95"]
    printed, file = summarize(m1=results)
    assert "its results have no 'mean_ci95'; evaluate again (-m eval -r)" in printed
    assert file is None


def test_a_report_that_is_no_name_is_left(summarize):
    printed, file = summarize(m1={"x": 1.0, "report": 3})
    assert "Report:" not in printed
    assert "report  " not in printed
    assert file is None


def test_the_report_computes_nothing_anew(report_of):
    results = json.loads(json.dumps(results_of()))
    pplqa = results["analysis"]["preferences"]["votes"]["groups"][0]["predictors"][0]
    pplqa["accuracy"] = 0.12345
    results["analysis"]["systems"]["systems"][0]["mean"] = 9.8765
    text = to_markdown(report_of(results))
    assert "0.123 [" in text
    assert "9.88 [" in text or "9.877 [" in text
