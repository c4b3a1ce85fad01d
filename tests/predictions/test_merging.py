import json

import pytest

from opencompass_ext.errors import PredictionsError
from opencompass_ext.outputs import RunFolder, journal_path, rows_folder, rows_path
from opencompass_ext.predictions import final_file
from opencompass_ext.predictions.file import PredictionsFile, load_predictions, read_provenance
from opencompass_ext.predictions.lock import remove_parts
from opencompass_ext.predictions.merging import merge_finished, merge_parts
from opencompass_ext.records import RowRange, TaskOutcome, TaskSpec

TOTAL = 10
KEYS = [f"k{i}" for i in range(TOTAL)]
DATA_KEYS = [f"d{i}" for i in range(TOTAL)]


def row(i):
    return {"origin_prompt": f"数 {i}\n", "ppl": i / 3, "nested": {"x": [i, None]}}


def ranges(*stops):
    return [RowRange(a, b, TOTAL) for a, b in zip((0, *stops), (*stops, TOTAL), strict=True)]


def do(path, rows=None, keys=KEYS, data_keys=DATA_KEYS, only=None, provenance=None):
    """Do rows that are not there; return the numbers of those."""
    start, stop, _ = rows or RowRange(0, len(keys), len(keys))
    mine = PredictionsFile(path, keys[start:stop], rows, data_keys[start:stop])
    with mine as predictions:
        if predictions.is_complete:
            return []
        missing = [i for i in range(stop - start) if i not in predictions.rows]
        todo = [i for i in missing if only is None or i + start in only]
        predictions.append({i: row(i + start) for i in todo})
        if len(todo) == len(missing):
            predictions.finish({"seed": 1, **(provenance or {})})
        return [i + start for i in todo]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "predictions" / "m" / "d.json"


@pytest.fixture
def unbroken(tmp_path):
    whole = tmp_path / "unbroken" / "d.json"
    do(whole)
    return whole


@pytest.mark.parametrize("stops", [(5,), (1, 2, 9), (3,), tuple(range(1, TOTAL))])
def test_parts_become_the_file_of_an_unbroken_run(path, unbroken, stops):
    for part in reversed(ranges(*stops)):
        do(path, part)
    merge_parts(path, ranges(*stops))
    assert path.read_bytes() == unbroken.read_bytes()
    assert read_provenance(path) == read_provenance(unbroken)
    assert sorted(p.name for p in path.parent.iterdir()) == ["d.json", "d.provenance"]
    assert do(path) == []


def test_a_part_says_in_name_rows_and_provenance_which_rows_it_holds(path):
    part = RowRange(4, 7, TOTAL)
    do(path, part)
    own = rows_path(path, 4, 7)
    assert list(json.loads(own.read_bytes())) == ["4", "5", "6"]
    assert read_provenance(own)["rows"] == [4, 7, TOTAL]
    do(path, RowRange(7, 10, TOTAL), only=[8])
    line = json.loads(journal_path(rows_path(path, 7, 10)).read_bytes())
    assert line["i"] == 8


def test_a_missing_part_is_named_and_nothing_is_changed(path):
    do(path, RowRange(0, 3, TOTAL))
    do(path, RowRange(6, 10, TOTAL))
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(PredictionsError, match=r"rows 3 to 5 of 10 are missing \(no .*3-6.json"):
        merge_parts(path, ranges(3, 6))
    assert [p for p in sorted(path.parent.rglob("*")) if p.suffix != ".lock"] == before
    with pytest.raises(PredictionsError, match="has not finished"):
        load_predictions(path)


def test_a_part_that_is_not_finished_is_named(path):
    do(path, RowRange(0, 5, TOTAL))
    do(path, RowRange(5, 10, TOTAL), only=[6])
    with pytest.raises(PredictionsError, match="rows 5 to 9 of 10 are not finished"):
        merge_parts(path, ranges(5))


@pytest.mark.parametrize("damage", [b"{}", b'{\n    "0": {"ppl": 1.0}\n}', b"cut o"])
def test_a_part_that_was_changed_is_refused(path, damage):
    for part in ranges(5):
        do(path, part)
    rows_path(path, 0, 5).write_bytes(damage)
    with pytest.raises(PredictionsError, match=r"0-5.json, rows 0 to 4 of 10, is not as"):
        merge_parts(path, ranges(5))


@pytest.mark.parametrize(
    "wrong",
    [
        [RowRange(0, 5, TOTAL)],
        [RowRange(0, 5, TOTAL), RowRange(4, 10, TOTAL)],
        [RowRange(0, 5, TOTAL), RowRange(6, 10, TOTAL)],
        [],
    ],
)
def test_ranges_with_a_gap_or_an_overlap_are_refused(path, wrong):
    for part in wrong:
        do(path, part)
    with pytest.raises(PredictionsError, match=r"no task is there|the tasks end"):
        merge_parts(path, wrong)


def test_another_division_uses_every_finished_row(path, unbroken):
    do(path, RowRange(0, 5, TOTAL))
    do(path, RowRange(5, 10, TOTAL), only=[5, 8])
    done = [i for part in ranges(3, 7) for i in do(path, part)]
    assert done == [6, 7, 9]
    merge_parts(path, ranges(3, 7))
    assert path.read_bytes() == unbroken.read_bytes()


def test_a_run_without_parts_uses_those_of_one_with_parts(path, unbroken):
    do(path, RowRange(0, 5, TOTAL))
    do(path, RowRange(5, 10, TOTAL), only=[7])
    assert do(path) == [5, 6, 8, 9]
    assert path.read_bytes() == unbroken.read_bytes()
    assert not rows_folder(path).exists()


def test_parts_use_what_a_run_without_parts_has_left(path, unbroken):
    do(path, only=[1, 2, 8])
    done = [i for part in ranges(5) for i in do(path, part)]
    assert done == [0, 3, 4, 5, 6, 7, 9]
    merge_parts(path, ranges(5))
    assert path.read_bytes() == unbroken.read_bytes()
    assert not journal_path(path).exists()


def test_parts_of_rows_that_are_done_already_write_nothing(path):
    do(path)
    before = path.stat().st_mtime_ns
    assert [do(path, part) for part in ranges(4)] == [[], []]
    assert not rows_folder(path).exists()
    merge_parts(path, ranges(4))
    assert path.stat().st_mtime_ns == before


def test_only_the_part_with_a_changed_row_is_done_and_the_rest_stays(path):
    do(path)
    keys = [*KEYS[:7], "changed", *KEYS[8:]]
    assert [do(path, part, keys) for part in ranges(5)] == [[], [7]]
    merge_parts(path, ranges(5))
    provenance = read_provenance(path)
    assert provenance["row_keys"] == keys
    assert load_predictions(path) == [row(i) for i in range(TOTAL)]


def test_data_that_shrank(path):
    do(path)
    shorter = [RowRange(0, 3, 6), RowRange(3, 6, 6)]
    assert [do(path, part, KEYS[:6]) for part in shorter] == [[], []]
    merge_parts(path, shorter)
    assert load_predictions(path) == [row(i) for i in range(6)]


def test_fields_of_unfinished_rows_move_too(path):
    with PredictionsFile(path, KEYS, data_keys=DATA_KEYS) as whole:
        whole.append({}, {3: {"q": 1}, 6: {"q": 2}})
        whole.append({}, {6: {"a": 3}})
    with PredictionsFile(path, KEYS[5:], RowRange(5, 10, TOTAL), DATA_KEYS[5:]) as part:
        assert part.parts == {1: {"q": 2, "a": 3}}


def test_a_row_whose_data_changed_but_not_its_prompt_is_recorded_and_not_done_again(path):
    do(path)
    changed = ["other", *DATA_KEYS[1:]]
    assert do(path, data_keys=changed) == []
    assert do(path, data_keys=changed) == []
    assert PredictionsFile(path, KEYS, data_keys=changed).is_complete
    assert read_provenance(path)["data_keys"] == changed


def outcome(rows, status="done", dataset="d"):
    task = TaskSpec("T", {"abbr": "m"}, ({"abbr": dataset},), "x", rows=(rows,) if rows else ())
    return TaskOutcome(task, status)


def test_only_pairs_whose_tasks_all_ended_well_are_merged(tmp_path):
    folder = RunFolder(tmp_path)
    for name in ("d", "e", "gone"):
        for part in ranges(5):
            do(folder.predictions("m", name), part)
    rows_path(folder.predictions("m", "gone"), 0, 5).unlink()
    outcomes = [
        *(outcome(part) for part in ranges(5)),
        outcome(ranges(5)[0], dataset="e"),
        outcome(ranges(5)[1], "failed", dataset="e"),
        *(outcome(part, dataset="gone") for part in ranges(5)),
        outcome(None, dataset="whole"),
    ]
    (failure,) = merge_finished(folder, outcomes)
    assert failure.task.name == "T[m/gone]"
    assert "rows 0 to 4 of 10 are missing" in failure.error
    assert folder.predictions("m", "d").exists()
    assert not folder.predictions("m", "e").exists()


def test_rows_that_stand_only_in_the_old_whole_survive_a_death_in_mid_merge(path, monkeypatch):
    do(path)
    keys = [*KEYS[:7], "changed", *KEYS[8:]]
    assert [do(path, part, keys) for part in ranges(5)] == [[], [7]]
    # The machine dies between the new file and its provenance.
    monkeypatch.setattr(final_file, "write_json", dying_when(path, final_file.write_json))
    with pytest.raises(KeyboardInterrupt):
        merge_parts(path, ranges(5))
    monkeypatch.undo()
    assert [do(path, part, keys) for part in ranges(2, 6)] == [[], [], []]
    merge_parts(path, ranges(2, 6))
    assert load_predictions(path) == [row(i) for i in range(TOTAL)]


def dying_when(path, write_json):
    def write(where, value):
        if where == path.with_suffix(".provenance"):
            raise KeyboardInterrupt
        write_json(where, value)

    return write


def test_an_old_whole_is_not_evaluated_while_parts_of_a_new_one_are_there(path):
    do(path)
    keys = [*KEYS[:7], "changed", *KEYS[8:]]
    do(path, ranges(5)[1], keys)
    with pytest.raises(PredictionsError, match="has not finished"):
        load_predictions(path)


@pytest.mark.parametrize("stops", [(), (2, 7)])
def test_torn_and_damaged_lines_of_parts_cost_their_own_rows(path, unbroken, stops):
    part = RowRange(0, 5, TOTAL)
    do(path, part, only=[0, 1, 2, 3])
    journal = journal_path(rows_path(path, 0, 5))
    lines = journal.read_bytes().split(b"\n")
    lines[1] = lines[1][:-4] + b"\0" * 4
    journal.write_bytes(b"\n".join(lines)[:-5])
    assert [i for other in ranges(*stops) for i in do(path, other)] == [1, 3, *range(4, 10)]
    merge_parts(path, ranges(*stops))
    assert path.read_bytes() == unbroken.read_bytes()
    assert do(path) == []


def test_what_another_process_writes_is_left_alone(path):
    """Two runs that go on with one folder and cut otherwise: each row comes once in the end."""
    first = PredictionsFile(path, KEYS[:5], RowRange(0, 5, TOTAL), DATA_KEYS[:5])
    with first as predictions:
        predictions.append({0: row(0), 1: row(1)})
        assert do(path, RowRange(0, 3, TOTAL)) == [2]
        assert do(path, RowRange(3, 10, TOTAL)) == [3, 4, 5, 6, 7, 8, 9]
        merge_parts(path, ranges(3))
        assert journal_path(rows_path(path, 0, 5)).exists()
    assert do(path) == []
    assert not rows_folder(path).exists()
    assert load_predictions(path) == [row(i) for i in range(TOTAL)]


@pytest.mark.parametrize("left", ["0-5.lock", "0-5.provenance", ".0-5.json.123.tmp"])
def test_what_a_kill_left_of_a_part_goes_with_the_parts(tmp_path, left):
    path = tmp_path / "d.json"
    rows_folder(path).mkdir()
    (rows_folder(path) / left).write_text("")
    remove_parts(path)
    assert not rows_folder(path).exists()
