import errno
import json
import logging
import os
import subprocess
import sys

import pytest

from opencompass_ext.errors import OutputError, PredictionsError
from opencompass_ext.outputs import lock_path
from opencompass_ext.predictions import final_file
from opencompass_ext.predictions import journal as journal_module
from opencompass_ext.predictions import lock as predictions_lock
from opencompass_ext.predictions.file import PredictionsFile, load_predictions, read_provenance
from opencompass_ext.records import RowRange

ROWS = [
    {"origin_prompt": f"text {i} 数😀 \u2028 line\nbreak {{label}}", "ppl": i / 3, "token_len": i}
    for i in range(10)
]
KEYS = [f"key{i}" for i in range(10)]


def score(path, keys=KEYS, rows=ROWS, until=None, batch=3):
    """Score what is missing, ``until`` rows at most, and return the indices scored."""
    with PredictionsFile(path, keys) as predictions:
        if predictions.is_complete:
            return []
        todo = [i for i in range(len(keys)) if i not in predictions.rows][:until]
        for start in range(0, len(todo), batch):
            predictions.append({i: rows[i] for i in todo[start : start + batch]})
        if len(predictions.rows) == len(keys):
            predictions.finish({"model": "m"})
    return todo


@pytest.fixture
def path(tmp_path):
    return tmp_path / "predictions" / "m" / "d.json"


@pytest.fixture
def unbroken(tmp_path):
    path = tmp_path / "unbroken.json"
    score(path)
    return path.read_bytes()


def test_final_file_is_what_json_dumps_gives(unbroken):
    expected = {str(i): row for i, row in enumerate(ROWS)}
    assert unbroken.decode() == json.dumps(expected, indent=4, ensure_ascii=False)


def test_only_the_final_file_and_its_provenance_remain(path):
    score(path)
    assert sorted(os.listdir(path.parent)) == ["d.json", "d.provenance"]
    provenance = read_provenance(path)
    assert provenance["row_keys"] == KEYS
    assert provenance["model"] == "m"
    assert load_predictions(path) == ROWS


def test_an_interrupted_run_ends_like_an_unbroken_one(path, unbroken):
    assert score(path, until=4) == [0, 1, 2, 3]
    assert sorted(os.listdir(path.parent)) == ["d.journal"]
    assert score(path, until=3) == [4, 5, 6]
    assert score(path) == [7, 8, 9]
    assert path.read_bytes() == unbroken
    assert score(path) == []


def test_rows_may_finish_in_any_order(path, unbroken):
    with PredictionsFile(path, KEYS) as predictions:
        for i in (7, 3, 9, 0, 1, 8, 2, 6, 5, 4):
            predictions.append({i: ROWS[i]})
        predictions.finish({})
    assert path.read_bytes() == unbroken


def test_a_torn_last_line_is_dropped(path, unbroken, caplog):
    score(path, until=6)
    journal = path.with_suffix(".journal")
    journal.write_bytes(journal.read_bytes()[:-5])
    assert PredictionsFile(path, KEYS).rows.keys() == set(range(5))
    assert "torn last line" in caplog.text
    assert score(path, until=1) == [5]
    assert PredictionsFile(path, KEYS).rows.keys() == set(range(6))
    score(path)
    assert path.read_bytes() == unbroken


@pytest.mark.parametrize(
    "damage",
    [
        b'{"i": 2, "key"',
        b"\0\0\0\0",
        b"[]",
        b'"x"',
        b'{"i": "2", "key": "key2", "row": {}}',
        b"\xff",
    ],
)
def test_a_damaged_middle_line_costs_only_its_row(path, unbroken, caplog, damage):
    score(path, until=6)
    journal = path.with_suffix(".journal")
    lines = journal.read_bytes().split(b"\n")
    lines[2] = damage
    journal.write_bytes(b"\n".join(lines))
    assert PredictionsFile(path, KEYS).rows.keys() == {0, 1, 3, 4, 5}
    assert "1 damaged lines dropped, the first is line 3" in caplog.text
    assert score(path) == [2, 6, 7, 8, 9]
    assert path.read_bytes() == unbroken


def test_a_journal_of_nothing_but_a_torn_line(path, unbroken):
    path.parent.mkdir(parents=True)
    path.with_suffix(".journal").write_bytes(b'{"i": 0')
    assert score(path) == list(range(10))
    assert path.read_bytes() == unbroken


def test_an_edited_row_is_scored_again(path, caplog):
    score(path)
    keys = [*KEYS[:4], "other", *KEYS[5:]]
    rows = [*ROWS[:4], {"ppl": 9.0}, *ROWS[5:]]
    assert not PredictionsFile(path, keys).is_complete
    assert "9 of its 10 rows serve" in caplog.text
    assert score(path, keys, rows) == [4]
    assert load_predictions(path) == rows


def test_data_that_grew_and_shrank(path):
    score(path, KEYS[:6])
    assert score(path) == [6, 7, 8, 9]
    assert load_predictions(path) == ROWS
    assert score(path, KEYS[:2]) == []
    assert load_predictions(path) == ROWS[:2]


def test_another_model_takes_over_nothing(path, caplog):
    score(path, until=6)
    other = [f"other{i}" for i in range(10)]
    assert PredictionsFile(path, other).rows == {}
    assert "6 rows belong to other data or another model" in caplog.text
    assert score(path, other) == list(range(10))


def test_rows_of_the_old_final_file_survive_a_death_before_the_new_provenance(path):
    score(path, KEYS[:6])
    old_provenance = path.with_suffix(".provenance").read_bytes()
    score(path, until=2)
    journal = path.with_suffix(".journal").read_bytes()
    score(path)
    path.with_suffix(".provenance").write_bytes(old_provenance)
    path.with_suffix(".journal").write_bytes(journal)
    assert PredictionsFile(path, KEYS).rows.keys() == set(range(8))


def test_a_death_before_the_journal_is_removed(path, unbroken):
    score(path, until=9)
    journal = path.with_suffix(".journal").read_bytes()
    score(path)
    path.with_suffix(".journal").write_bytes(journal)
    assert PredictionsFile(path, KEYS).is_complete
    assert score(path) == []
    assert sorted(os.listdir(path.parent)) == ["d.json", "d.provenance"]
    assert path.read_bytes() == unbroken


@pytest.mark.parametrize("provenance", [None, b"{", b"[]", b'{"row_keys": 3}'])
def test_a_file_without_fitting_provenance_is_evaluated_but_not_reused(path, provenance, caplog):
    score(path)
    path.with_suffix(".provenance").unlink()
    if provenance is not None:
        path.with_suffix(".provenance").write_bytes(provenance)
    assert load_predictions(path) == ROWS
    assert PredictionsFile(path, KEYS).rows == {}
    assert "nothing tells which data and model" in caplog.text
    assert score(path) == list(range(10))


def test_a_file_edited_by_hand_is_not_taken_for_finished(path):
    score(path)
    path.write_text(path.read_text().replace('"token_len": 4', '"token_len": 5'))
    assert score(path) == list(range(10))


def test_load_refuses_what_is_not_finished(path):
    with pytest.raises(PredictionsError, match="run inference first"):
        load_predictions(path)
    score(path, until=4)
    with pytest.raises(PredictionsError, match="has not finished"):
        load_predictions(path)


def test_load_refuses_a_count_that_differs_from_the_provenance(path):
    score(path)
    rows = json.loads(path.read_text())
    del rows["9"]
    path.write_text(json.dumps(rows))
    with pytest.raises(PredictionsError, match="holds 9 rows, its provenance says 10"):
        load_predictions(path)


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"0": {}, "2": {}}', '{"0": 1}', '{"a": {}}'])
def test_load_refuses_what_is_no_predictions_file(path, content):
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(PredictionsError, match=r"d\.json"):
        load_predictions(path)


def test_an_empty_dataset(path):
    assert score(path, keys=[]) == []
    with PredictionsFile(path, []) as predictions:
        predictions.finish({})
    assert path.read_text() == "{}"
    assert load_predictions(path) == []
    assert PredictionsFile(path, []).is_complete


def test_a_bad_row_is_refused_and_names_itself(path):
    with PredictionsFile(path, KEYS) as predictions:
        with pytest.raises(ValueError, match=r"row 3: .*null and a reason"):
            predictions.append({3: {"ppl": float("nan")}})
        with pytest.raises(ValueError, match="row 10 is outside"):
            predictions.append({10: {}})
        with pytest.raises(ValueError, match="10 of 10 rows are missing"):
            predictions.finish({})
    assert PredictionsFile(path, KEYS).rows == {}


HOLDER = """
import sys
from opencompass_ext.predictions.file import PredictionsFile
with PredictionsFile(sys.argv[1], ["k"]) as predictions:
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_second_process_gets_a_clear_error_and_a_dead_one_none(path, monkeypatch, caplog):
    monkeypatch.setattr(predictions_lock, "IDLE_SECONDS", 0.1)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(PredictionsError, match="another process is writing"):
            score(path)
        assert "waiting for another process" in caplog.text
        holder.kill()
    assert score(path) == list(range(10))


def test_a_file_that_cannot_be_begun_gives_its_lock_back(path, monkeypatch):
    score(path)

    def refuse(*args):
        raise OutputError("the disk is full")

    monkeypatch.setattr(journal_module.Journal, "append", refuse)
    predictions = PredictionsFile(path, [*KEYS[:-1], "new"])
    with pytest.raises(OutputError), predictions:
        pass
    monkeypatch.undo()
    monkeypatch.setattr(predictions_lock, "IDLE_SECONDS", 0.1)
    assert score(path, [*KEYS[:-1], "new"]) == [9]
    assert not lock_path(path).exists()


SLOW_HOLDER = """
import sys, time
from opencompass_ext.predictions.file import PredictionsFile
with PredictionsFile(sys.argv[1], [f"k{i}" for i in range(10)]) as predictions:
    print("held", flush=True)
    for i in range(9):
        predictions.append({i: {"ppl": float(i)}})
        time.sleep(0.3)
"""


def test_a_process_that_goes_on_is_waited_for_and_its_rows_are_used(path, monkeypatch):
    monkeypatch.setattr(predictions_lock, "IDLE_SECONDS", 1.5)
    holder = subprocess.Popen(
        [sys.executable, "-c", SLOW_HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with PredictionsFile(path, [f"k{i}" for i in range(10)]) as predictions:
            assert sorted(predictions.rows) == list(range(9))
    assert holder.returncode == 0


def test_a_part_that_was_joined_while_its_lock_was_waited_for_is_seen(path):
    rows = RowRange(0, 4, 10)
    late = PredictionsFile(path, KEYS[:4], rows)
    score(path)
    with late as predictions:
        assert predictions.is_complete
        assert predictions.rows[3] == load_predictions(path)[3]


@pytest.mark.parametrize("garbage", [b"[" * 100_000, b'{"i": ' * 50_000])
def test_garbage_that_nests_deeply_is_dropped_like_any_other(path, garbage, caplog):
    score(path)
    whole = path.read_bytes()
    path.with_suffix(".provenance").write_bytes(garbage)
    path.unlink()
    path.with_suffix(".journal").write_bytes(garbage + b"\n")
    score(path)
    assert "damaged lines dropped" in caplog.text
    assert path.read_bytes() == whole
    path.write_bytes(garbage)
    with pytest.raises(PredictionsError, match="is not valid JSON"):
        load_predictions(path)


def test_what_another_process_finished_meanwhile_is_seen(path):
    late = PredictionsFile(path, KEYS)
    score(path)
    with late as predictions:
        assert predictions.is_complete
        assert predictions.rows == dict(enumerate(ROWS))


def test_a_full_disk_is_one_clear_error_and_keeps_finished_rows(path, unbroken, monkeypatch):
    real_write = os.write
    with PredictionsFile(path, KEYS) as predictions:
        predictions.append({0: ROWS[0], 1: ROWS[1]})

        def half_write(descriptor, content):
            if len(content) < 20:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real_write(descriptor, content[: len(content) // 2])

        monkeypatch.setattr(journal_module.os, "write", half_write)
        with pytest.raises(OutputError, match=r"d\.journal: the disk is full.*-r"):
            predictions.append({2: ROWS[2]})
        monkeypatch.undo()
        predictions.append({3: ROWS[3]})  # the torn line is gone, so this one is whole
    assert PredictionsFile(path, KEYS).rows.keys() == {0, 1, 3}
    score(path)
    assert path.read_bytes() == unbroken


def test_nothing_is_written_by_looking(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    assert PredictionsFile(tmp_path / "m" / "d.json", KEYS).rows == {}
    assert os.listdir(tmp_path) == []


def test_work_grows_in_step_with_the_rows(path, monkeypatch):
    """Bytes written and journal lines parsed are counted, for a run in many small batches."""
    written = 0
    real_write = os.write

    def counting_write(descriptor, content):
        nonlocal written
        written += len(content)
        return real_write(descriptor, content)

    monkeypatch.setattr(journal_module.os, "write", counting_write)
    monkeypatch.setattr(journal_module.os, "fsync", lambda descriptor: None)
    keys = [f"k{i}" for i in range(3000)]
    with PredictionsFile(path, keys) as predictions:
        for i in range(3000):
            predictions.append({i: {"ppl": 1.0}})
    assert written == path.with_suffix(".journal").stat().st_size


def test_a_changed_label_is_no_changed_row(tmp_path):
    rows = [{"text": "a", "votes": 1}, {"text": "b", "votes": 2}]
    keys = [final_file.data_key(row, ["votes"]) for row in rows]
    with PredictionsFile(tmp_path / "d.json", ["k0", "k1"], data_keys=keys) as predictions:
        predictions.append({0: {}, 1: {}})
        predictions.finish({})
    new_votes = [{**row, "votes": 0} for row in rows]
    assert final_file.changed_row(tmp_path / "d.json", new_votes, ["votes"]) is None
    new_text = [rows[0], {**rows[1], "text": "c"}]
    assert final_file.changed_row(tmp_path / "d.json", new_text, ["votes"]) == 1
