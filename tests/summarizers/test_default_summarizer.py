import csv
import io
import re
import subprocess
import sys

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.evaluators import AverageInferencePPLEvaluator
from opencompass_ext.records import TaskOutcome
from opencompass_ext.registry import SUMMARIZERS
from opencompass_ext.summarizers import DefaultSummarizer


@pytest.fixture
def table_of(run_folder, models, datasets):
    """Make the table of the run, and index it by (dataset, metric)."""

    def table_of(failures=(), **config):
        summarizer = SUMMARIZERS.build({"type": "DefaultSummarizer", **config})
        table = summarizer.make_table(run_folder, models, datasets, list(failures))
        shown = {(row.dataset, row.metric): [c.shown for c in row.cells] for row in table.rows}
        return table, shown

    return table_of


def test_every_metric_of_every_dataset_is_a_row(save, table_of):
    save("m1", "d1", {"b": 1.0, "a": 2})
    save("m2", "d1", {"a": 3, "c": 0.5})
    save("m1", "d2", {"acc": 0.25})
    table, shown = table_of()
    assert table.models == ("m1", "m2")
    assert shown == {
        ("d1", "b"): ["1.0000", "-"],
        ("d1", "a"): ["2", "3"],
        ("d1", "c"): ["-", "0.50000"],
        ("d2", "acc"): ["0.25000", "-"],
    }


def test_only_numbers_at_the_top_are_metrics(save, table_of):
    content = {
        "acc": 1.0,
        "ok": True,
        "name": "x",
        "counts": {"rows": 3},
        "details": [{"acc": 1}],
        "acc_ci95": [0.5, 1.5],
        "other_ci95": None,
        "note": "say",
        "provenance": {},
    }
    save("m1", "d1", content)
    table, shown = table_of(dataset_abbrs=["d1"])
    assert shown == {("d1", "acc"): ["1.0000 [0.5000, 1.5000]", "-"]}
    assert "say." in table.notes


def test_a_dataset_without_any_results_still_has_its_row(table_of):
    _, shown = table_of()
    assert shown == {("d1", "-"): ["-", "-"], ("d2", "-"): ["-", "-"]}


def test_a_null_metric_shows_its_reason(save, table_of):
    save("m1", "d1", {"ppl": None, "bpb": None, "reasons": {"ppl": "no_counted_token"}})
    save("m2", "d1", {"ppl": None, "ppl_reason": "no_rows", "bpb": float("nan")})
    _, shown = table_of(dataset_abbrs=[["d1", "ppl"], ["d1", "bpb"]])
    assert shown["d1", "ppl"] == ["null (no_counted_token)", "null (no_rows)"]
    assert shown["d1", "bpb"] == ["null (no reason given)"] * 2


def test_a_failed_pair_says_so_in_every_row(save, fail, table_of):
    save("m1", "d1", {"x": 1.0, "y": 2.0})
    table, shown = table_of([fail("m2", "d1")])
    assert shown["d1", "x"] == ["1.0000", "FAILED"]
    assert shown["d1", "y"] == ["2.0000", "FAILED"]
    assert table.failures == (
        "failed OpenICLInfer[m2/d1]: ModelError: no weights (log: logs/x.out)",
    )


def test_a_failed_pair_does_not_show_the_results_of_an_earlier_run(save, fail, table_of):
    save("m1", "d1", {"x": 1.0})
    save("m2", "d1", {"x": 9.0})
    _, shown = table_of([fail("m2", "d1")])
    assert shown["d1", "x"] == ["1.0000", "FAILED"]


def test_of_a_failed_task_of_two_datasets_the_finished_one_is_shown(save, fail, table_of):
    save("m1", "d1", {"x": 1.0})
    _, shown = table_of([fail("m1", "d1", "d2")])
    assert shown["d1", "x"] == ["1.0000", "-"]
    assert shown["d2", "-"] == ["FAILED", "-"]


def test_an_interrupted_pair_is_not_called_failed(fail, table_of):
    _, shown = table_of([fail("m1", "d1", status="interrupted")])
    assert shown["d1", "-"] == ["INTERRUPTED", "-"]


@pytest.mark.parametrize(
    "content",
    [
        *("{", "[1]", '"x"'),
        {"x": 1.0, "x_ci95": 3},
        {"x": 1.0, "counts": [1]},
        {"x": None, "reasons": "none"},
        {"x": 1.0, "lower_is_better": 5},
        {"x": 10**400},
        {"x": 1.0, "coverage": {"x": {"n_scored": None, "n_total": 1}}},
    ],
)
def test_a_damaged_results_file_is_named_and_the_rest_is_shown(save, table_of, content):
    save("m1", "d1", content)
    save("m2", "d1", {"x": 1.0})
    table, shown = table_of()
    assert shown["d1", "x"] == ["DAMAGED", "1.0000"]
    assert any("d1.json" in note for note in table.notes)


def test_an_error_of_opencompass_is_a_failure(save, table_of):
    save("m1", "d1", {"error": "preds and refrs have different length"})
    table, shown = table_of()
    assert shown["d1", "-"] == ["FAILED", "-"]
    assert any("different length" in note for note in table.notes)


def test_results_of_opencompass_need_no_extras(save, table_of):
    save("m1", "d1", {"average_ppl": 1.5, "details": {"0": {"ppl": 3.0}}})
    _, shown = table_of()
    assert shown["d1", "average_ppl"] == ["1.5000", "-"]


def test_the_evaluators_results_carry_their_footnotes(save, table_of):
    score = AverageInferencePPLEvaluator().score
    lossy = score(
        ppl=[2.0, 9.0, 0.0, None],
        token_len=[4, 2, 0, 1],
        byte_len=[9, 9, 0, 1],
        unscored_tokens=[1, 0, 0, 0],
        truncated_tokens=[0, 7, 0, 0],
        unaligned_chars=[0, 0, 5, 0],
        long_text=["whole", "truncate", "whole", "window"],
    )
    save("m1", "d1", lossy)
    save("m2", "d1", score(ppl=[2.0, 9.0], token_len=[4, 2], byte_len=[9, 9]))
    table, shown = table_of()
    assert shown["d1", "average_ppl"][1].startswith("1.8333 [")
    assert "Lower is better: average_ppl, perplexity, bits_per_byte, example_weighted_mean." in (
        table.notes
    )
    lost = [note for note in table.notes if note.startswith("m1 on d1: ")]
    assert lost == [
        "m1 on d1: rows without a score: 1 of 4 (non_finite_nll: 1); "
        "rows without a counted token: 1 of 4; texts cut: 1 of 4; labelled tokens cut off: 7; "
        "labelled tokens with nothing before them: 1; labelled characters that no token owns: 5"
    ]
    assert not any(note.startswith("m2 on") for note in table.notes)


def test_models_that_lost_the_same_share_a_line(save, table_of, models):
    models += [{"abbr": "m3"}, {"abbr": "m4"}]
    for model in models:
        save(model["abbr"], "d1", {"x": 1.0, "counts": {"rows": 2, "truncated_rows": 1}})
    table, _ = table_of()
    assert "m1, m2, m3 and 1 more on d1: texts cut: 1 of 2" in table.notes


def test_summarizer_abbr_is_the_heading(table_of, models):
    models[1]["summarizer_abbr"] = "Model Two"
    assert table_of()[0].models == ("m1", "Model Two")


def test_rows_are_those_asked_for_in_order(save, table_of):
    save("m1", "d1", {"x": 1.0, "y": 2.0})
    save("m1", "d2", {"z": 3.0})
    table, _ = table_of(dataset_abbrs=["d2", "--- more ---", ["d1", "y"], "d1"])
    rows = [(row.dataset, row.metric, row.cells[0].shown) for row in table.rows]
    assert rows == [
        ("d2", "z", "3.0000"),
        ("--- more ---", "-", ""),
        ("d1", "y", "2.0000"),
        ("d1", "x", "1.0000"),
    ]


def test_a_row_that_is_not_there_has_dashes_and_a_note(save, table_of):
    save("m1", "d1", {"accuracy": 1.0})
    table, shown = table_of(dataset_abbrs=["d1x", ["d1", "acuracy"]])
    assert shown == {("d1x", "-"): ["-", "-"], ("d1", "acuracy"): ["-", "-"]}
    notes = "\n".join(table.notes)
    assert "'d1x', which is no data set or group here: did you mean 'd1'" in notes
    assert "'acuracy' of 'd1', which has none: did you mean 'accuracy'?" in notes


@pytest.mark.parametrize("row", [3, ["d1"], ["d1", "x", "y"], ["d1", 4]])
def test_a_row_of_another_form_is_refused(row):
    with pytest.raises(ConfigError, match=re.escape(repr(row))):
        DefaultSummarizer(dataset_abbrs=[row])


def test_groups_come_last_and_may_hold_groups(save, table_of):
    for model, scale in (("m1", 1.0), ("m2", 10.0)):
        save(model, "d1", {"x": 1.0 * scale})
        save(model, "d2", {"x": 3.0 * scale})
    table, shown = table_of(
        summary_groups=[
            {"name": "both", "subsets": ["d1", "d2"]},
            {"name": "all", "subsets": ["both", "d2"], "metric": "score"},
        ]
    )
    assert [row.dataset for row in table.rows] == ["d1", "d2", "both", "all"]
    assert shown["both", "naive_average"] == ["2.0000", "20.000"]
    assert shown["all", "score"] == ["2.5000", "25.000"]
    assert "both: naive_average of x over d1, d2" in table.notes


def test_a_group_with_a_failed_member_is_not_averaged_over_the_rest(save, fail, table_of):
    save("m1", "d1", {"x": 1.0})
    save("m1", "d2", {"x": 3.0})
    save("m2", "d1", {"x": 5.0})
    group = {"name": "both", "subsets": ["d1", "d2"]}
    table, shown = table_of([fail("m2", "d2")], summary_groups=[group])
    assert shown["both", "naive_average"] == ["2.0000", "- (1 missing)"]
    assert table.rows[-1].cells[1].plain == "-"
    assert "both has no value for m2: missing d2 x" in table.notes


def test_mode_comes_from_the_inferencer_and_a_mix_is_called_mixed(save, table_of, datasets):
    save("m1", "d1", {"x": 1.0})
    save("m1", "d2", {"x": 1.0})
    datasets[1]["infer_cfg"] = {"inferencer": {"type": "NoSuchInferencer"}}
    group = [{"name": "g", "subsets": ["d1", "d2"]}]
    table, _ = table_of(summary_groups=group)
    assert [row.mode for row in table.rows] == ["ppl", "-", "mixed"]


def test_the_version_follows_the_prompt_and_not_the_way_types_are_named(table_of, datasets):
    template = {"type": "PromptTemplate", "template": "{text}"}
    datasets[0]["infer_cfg"] = {"prompt_template": template}
    full = "opencompass.openicl.icl_prompt_template.PromptTemplate"
    datasets[1]["infer_cfg"] = {"prompt_template": {"template": "{text}", "type": full}}
    first, second = (row.version for row in table_of()[0].rows)
    assert first == second
    assert re.fullmatch("[0-9a-f]{6}", first)
    datasets[1]["infer_cfg"] = {"prompt_template": {**template, "template": "{text}."}}
    assert table_of()[0].rows[1].version != first


def test_files_are_written_and_the_text_is_returned(
    save, run_folder, models, datasets, fail, capsys
):
    models[0]["summarizer_abbr"] = 'a|b, "c"'
    save("m1", "d1", {"x": 0.5912345678, "x_ci95": [0.5, 0.7]})
    outcome = fail("m2", "d1")
    text = DefaultSummarizer().summarize(run_folder, models, datasets, [outcome])
    files = {path.suffix: path for path in (run_folder.root / "summary").iterdir()}
    assert set(files) == {".txt", ".csv", ".md"}
    assert all(re.fullmatch(r"summary_\d{8}_\d{6}", path.stem) for path in files.values())
    assert files[".txt"].read_text(encoding="utf-8") == text
    assert "0.59123 [0.50000, 0.70000]" in text
    assert "ModelError: no weights (log: logs/x.out)" in text

    rows = list(csv.reader(io.StringIO(files[".csv"].read_text(encoding="utf-8"))))
    assert rows[0] == ["dataset", "version", "metric", "mode", 'a|b, "c"', "m2"]
    assert rows[1][-2:] == ["0.5912345678", "FAILED"]

    lines = files[".md"].read_text(encoding="utf-8").splitlines()
    assert 'a\\|b, "c"' in lines[0]
    assert all(len(re.split(r"(?<!\\)\|", line)) == 8 for line in lines[:4])
    printed = capsys.readouterr().out
    assert "0.59123 [0.50000, 0.70000]" in printed
    assert str(run_folder.root / "summary") in printed


def test_twenty_models_are_printed_whole_below_one_another(save, run_folder, datasets, capsys):
    models = [{"abbr": f"model-number-{i:02}"} for i in range(20)]
    for i, model in enumerate(models):
        save(model["abbr"], "d1", {"average_ppl": 1.5 + i, "average_ppl_ci95": [1.0, 2.0 + i]})
    text = DefaultSummarizer().summarize(run_folder, models, datasets[:1], [])
    printed = capsys.readouterr().out
    for i, model in enumerate(models):
        assert printed.count(model["abbr"]) == 1
        cell = f"{1.5 + i:.{4 if i < 9 else 3}f} [1.000"
        assert cell in printed
        assert cell in text
    table_lines = [line for line in printed.splitlines() if "model-" in line or "d1" in line]
    assert max(map(len, table_lines)) <= 160
    assert len(table_lines) > 2


def test_a_narrow_terminal_loses_nothing(save, run_folder, models, datasets, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "48")
    monkeypatch.setenv("FORCE_COLOR", "1")
    abbr = "a-data-set-with-a-name-too-long-for-it"
    datasets[0]["abbr"] = abbr
    save("m1", abbr, {"average_ppl": 1.25, "average_ppl_ci95": [1.125, 2.5]})
    DefaultSummarizer(dataset_abbrs=[abbr]).summarize(run_folder, models[:1], datasets, [])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    table = plain.split("\n\n")[0].splitlines()
    assert max(map(len, table)) <= 48
    width = table[0].index("version")
    assert "".join(line[:width].strip() for line in table[2:]) == abbr
    for part in ("1.2500", "[1.1250,", "2.5000]"):
        assert part in plain


def test_brackets_and_colons_are_printed_as_they_are(save, run_folder, models, datasets, capsys):
    models[0]["abbr"] = "[bold]:smile:[/bold]"
    save(models[0]["abbr"], "d1", {"x": 1.0})
    DefaultSummarizer().summarize(run_folder, models, datasets, [])
    assert "[bold]:smile:[/bold]" in capsys.readouterr().out


def test_it_loads_nothing_heavy():
    code = (
        "import sys; from opencompass_ext.summarizers import DefaultSummarizer; "
        "print([m for m in ('torch', 'transformers', 'datasets', 'scipy') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_an_outcome_without_log_or_error_is_named_all_the_same(fail, table_of):
    outcome = fail("m1", "d1")
    bare = TaskOutcome(outcome.task, "failed")
    assert table_of([bare])[0].failures == ("failed OpenICLInfer[m1/d1]",)


def test_the_footnote_names_the_kind_of_the_intervals(save, table_of):
    save("m1", "d1", {"agreement": 0.5, "agreement_ci95": [0.1, 0.9], "interval": "Wilson"})
    assert "[low, high] is a 95 % Wilson interval." in table_of()[0].notes
    save("m1", "d2", {"score": 0.5, "score_ci95": [0.1, 0.9]})
    notes = table_of()[0].notes
    assert "[low, high] is a 95 % bootstrap interval over rows." in notes
    assert "[low, high] of agreement is a 95 % Wilson interval." in notes
