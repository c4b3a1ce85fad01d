import io

import pytest
from rich.console import Console

from opencompass_ext.summarizers.reports.render import print_report, to_markdown
from opencompass_ext.summarizers.reports.report import (
    Column,
    Report,
    Section,
    UnfitResults,
    make_table,
    part_of,
)

TABLE = make_table(
    [Column("rank"), Column("system", is_text=True), "score ↓", "win rate ↑"],
    [["1", "a|b", "1.5 [1.0, 2.0]", "0.75"], ["2", "[bold]c[/bold]", "12.5 [3.0, 20.0]", "-"]],
)
REPORT = Report(
    "PPLqa: d",
    (
        Section("Systems", ("Said *so*.",), TABLE, ("Mind <this>.",)),
        Section("More", table=make_table(["x", "y"], [["p", "1"]]), is_detail=True),
    ),
)


def printed(report, width=100):
    file = io.StringIO()
    print_report(report, Console(file=file, width=width, markup=False, highlight=False))
    return file.getvalue()


def test_markdown_holds_everything_and_shows_texts_as_they_are():
    assert to_markdown(REPORT) == (
        "# PPLqa: d\n"
        "\n"
        "## Systems\n"
        "\n"
        "Said \\*so\\*.\n"
        "\n"
        "| rank | system | score ↓ | win rate ↑ |\n"
        "| ---: | --- | ---: | ---: |\n"
        "| 1 | a\\|b | 1.5 [1.0, 2.0] | 0.75 |\n"
        "| 2 | [bold]c[/bold] | 12.5 [3.0, 20.0] | - |\n"
        "\n"
        "- Mind \\<this>.\n"
        "\n"
        "## More\n"
        "\n"
        "| x | y |\n"
        "| --- | ---: |\n"
        "| p | 1 |\n"
    )


def test_the_screen_leaves_details_to_the_file_and_takes_no_markup():
    shown = printed(REPORT)
    assert "More" not in shown
    assert "[bold]c[/bold]" in shown
    lines = shown.splitlines()
    first, second = (next(line for line in lines if mark in line) for mark in ("a|b", "[bold]"))
    # Numbers end in the same column.
    assert first.index("2.0]") + len("2.0]") == second.index("20.0]") + len("20.0]")


def test_a_table_that_is_too_wide_is_cut_into_tables_with_the_names_repeated():
    shown = printed(REPORT, width=34)
    assert shown.count("a|b") == 2
    assert shown.count("system") == 2
    assert "1.5 [1.0, 2.0]" in shown
    assert "12.5 [3.0, 20.0]" in shown
    assert "win rate ↑" in shown


def test_a_table_of_one_column_is_printed():
    assert "p" in printed(Report("t", (Section("s", table=make_table(["x"], [["p"]])),)))


@pytest.mark.parametrize("keys", [("b",), ("a", "b"), ("a", "c", "d")])
def test_what_a_results_file_lacks_is_named(keys):
    with pytest.raises(UnfitResults, match=f"no '{' -> '.join(keys)}'"):
        part_of({"a": {"c": 3}}, *keys)
