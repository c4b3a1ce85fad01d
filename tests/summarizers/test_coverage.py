"""How many rows a number stands on is shown beside it, and a task with rows missing shows both."""

from dataclasses import replace

import pytest

from opencompass_ext.summarizers import DefaultSummarizer

WHY = "the judge gave no usable answer for 3 of 5 rows"


@pytest.fixture
def cells(run_folder, models, datasets):
    """Return the cells of the first data set, by metric."""

    def cells(failures=()):
        table = DefaultSummarizer().make_table(run_folder, models, datasets[:1], list(failures))
        return {row.metric: [c.shown for c in row.cells] for row in table.rows}, table

    return cells


def rows(scored, total):
    return {"groundedness": {"n_scored": scored, "n_total": total, "null_rows": {}}}


def test_a_mean_over_fewer_rows_says_so(save, cells):
    save("m1", "d1", {"groundedness": 0.9, "coverage": rows(2, 5)})
    save("m2", "d1", {"groundedness": 0.8, "coverage": rows(5, 5)})
    assert cells()[0] == {"groundedness": ["0.90000 (2/5)", "0.80000"]}


def test_a_metric_without_a_scored_row_shows_none_of_how_many_and_why(save, cells):
    reasons = {"groundedness": "judge_error"}
    save("m1", "d1", {"groundedness": None, "reasons": reasons, "coverage": rows(0, 5)})
    assert cells()[0]["groundedness"][0] == "null (0/5: judge_error)"


def test_a_coverage_of_another_kind_is_no_trouble(save, cells):
    save("m1", "d1", {"acc": 0.5, "coverage": {"acc": 0.9}})
    save("m2", "d1", {"acc": 0.5, "coverage": 0.9})
    assert cells()[0] == {"acc": ["0.50000", "0.50000"], "coverage": ["-", "0.90000"]}


def test_results_that_say_what_is_missing_are_shown_although_the_task_failed(save, fail, cells):
    save("m1", "d1", {"groundedness": 0.9, "incomplete": WHY, "coverage": rows(2, 5)})
    shown, table = cells([replace(fail("m1", "d1"), error=WHY)])
    assert shown["groundedness"][0] == "0.90000 (2/5)"
    assert WHY in table.failures[0]


def test_incomplete_results_of_an_earlier_run_are_not_shown_for_another_failure(save, fail, cells):
    save("m1", "d1", {"groundedness": 0.9, "incomplete": WHY, "coverage": rows(2, 5)})
    save("m2", "d1", {"groundedness": 0.8})
    assert cells([fail("m1", "d1")])[0]["groundedness"] == ["FAILED", "0.80000"]
