import json
import os
import signal
import subprocess
from pathlib import Path

import pytest


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def logged(shop, name, **changes):
    return shop.model(type="run_fakes.LoggedModel", scored_log=str(shop.folder / name), **changes)


def rows_in(shop, name):
    return [int(line) for line in (shop.folder / name).read_text().split()]


@pytest.fixture
def unbroken(shop):
    """The bytes that an unbroken run gives for dataset ``a``."""
    out, shop.out = shop.out, shop.folder / "unbroken"
    config = {**shop.config([shop.model()], [shop.dataset("a")]), "work_dir": str(shop.out)}
    assert shop.run(config, mode="infer")[0] == 0
    content = shop.file("predictions", "m", "a").read_bytes()
    shop.out = out
    return content


def finish_and_compare(shop, unbroken, kept):
    """Go on with the run; the rows in ``kept`` may not be scored again."""
    config = shop.config([logged(shop, "second")], [shop.dataset("a")])
    code, output = shop.run(config, reuse="latest", workers=True)
    assert code == 0, output
    assert sorted(rows_in(shop, "second")) == [i for i in range(12) if i not in kept]
    assert shop.file("predictions", "m", "a").read_bytes() == unbroken
    assert sorted(os.listdir(shop.root / "predictions" / "m")) == ["a.json", "a.provenance"]


def test_a_killed_run_leaves_no_orphan_and_goes_on_where_it_was(shop, unbroken):
    config = shop.config([logged(shop, "first", seconds_per_batch=0.5)], [shop.dataset("a")])
    run = shop.start(config)
    shop.wait_for_rows("m", "a", 4)
    workers = children_of(run.pid)
    assert workers
    run.kill()
    run.communicate()
    shop.wait_until(lambda: not any(is_alive(pid) for pid in workers))
    kept = shop.rows_in_journal("m", "a")
    assert 4 <= len(kept) < 12
    assert rows_in(shop, "first") == kept
    finish_and_compare(shop, unbroken, kept)


def test_a_new_run_waits_for_the_last_batch_of_a_killed_one(shop, unbroken):
    config = shop.config([logged(shop, "first", seconds_per_batch=0.5)], [shop.dataset("a")])
    run = shop.start(config)
    shop.wait_for_rows("m", "a", 2)
    run.kill()
    run.communicate()
    config = shop.config([logged(shop, "second")], [shop.dataset("a")])
    code, output = shop.run(config, reuse="latest")
    assert code == 0, output
    assert sorted(rows_in(shop, "first") + rows_in(shop, "second")) == list(range(12))
    assert shop.file("predictions", "m", "a").read_bytes() == unbroken


def test_a_killed_worker_is_replaced(shop, unbroken):
    model = logged(shop, "first", die_on="row 5 of a", die_marker=str(shop.folder / "marker"))
    config = shop.config([model], [shop.dataset("a"), shop.dataset("b")], retry=1)
    code, output = shop.run(config, workers=True)
    assert code == 0, output
    assert "killed by SIGKILL" in output
    assert "trying once more" in output
    assert sorted(rows_in(shop, "first")) == sorted([*range(12), *range(12)])
    assert shop.file("predictions", "m", "a").read_bytes() == unbroken


def test_retries_end_and_the_other_dataset_is_done(shop):
    model = shop.model(die_on="row 5 of a")
    config = shop.config([model], [shop.dataset("a"), shop.dataset("b")], retry=1)
    code, output = shop.run(config, workers=True)
    assert code == 1
    assert output.count("trying once more") == 1
    ((name, error, log),) = shop.summary["failures"]
    assert name == "OpenICLInfer[m/a]"
    assert "killed by SIGKILL" in error
    assert Path(log).read_text().count("started in process") == 2
    assert shop.rows_in_journal("m", "a") == [0, 1, 2, 3]
    assert shop.file("results", "m", "b").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_130_after_the_batch_in_hand(shop, unbroken, number):
    config = shop.config(
        [logged(shop, "first", seconds_per_batch=0.5)], [shop.dataset("a"), shop.dataset("b")]
    )
    run = shop.start(config)
    shop.wait_for_rows("m", "a", 4)
    run.send_signal(number)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    status = json.loads((shop.root / "status.json").read_text())
    assert (status["state"], status["running"]) == ("interrupted", [])
    assert f"go on with -r {shop.root.name}" in output
    assert "Traceback" not in output
    assert not (shop.root / "predictions" / "m" / "b.json").exists()
    kept = shop.rows_in_journal("m", "a")
    assert rows_in(shop, "first") == kept
    assert "interrupted" in shop.file("logs/infer", "m", "a", ".out").read_text()
    finish_and_compare(shop, unbroken, kept)


def test_a_second_ctrl_c_does_not_wait(shop):
    config = shop.config([shop.model(seconds_per_batch=600)], [shop.dataset("a")])
    run = shop.start(config)
    shop.wait_until(lambda: run.poll() is None and children_of(run.pid))
    workers = children_of(run.pid)
    shop.wait_until(lambda: list(shop.out.glob("*/predictions/m/a.lock")))
    run.send_signal(signal.SIGINT)
    assert "Ctrl-C again" in next(line for line in run.stdout if "stopping" in line)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=25)  # less than the worker would have been given
    assert run.returncode == 130
    assert not any(is_alive(pid) for pid in workers)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_with_debug(shop, number):
    config = shop.config([shop.model(seconds_per_batch=0.5)], [shop.dataset("a")])
    run = shop.start(config, debug=True)
    shop.wait_for_rows("m", "a", 2)
    run.send_signal(number)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "go on with -r" in output
    assert "Traceback" not in output


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 100 KB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("cannot mount a small file system here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_one_clear_error_and_costs_no_finished_row(shop, small_disk):
    shop.out = small_disk / "out"
    texts = [f"row {i} of a " + "x" * 3000 for i in range(40)]
    config = shop.config([shop.model()], [shop.dataset("a", rows=texts)])
    code, output = shop.run(config, workers=True)
    assert code == 1
    assert "the disk is full: free some space and run again with -r" in output
    assert "Traceback" not in output
    kept = shop.rows_in_journal("m", "a")
    assert kept == list(range(len(kept)))
    assert 0 < len(kept) < 40
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    config = shop.config([logged(shop, "second")], [shop.dataset("a", rows=texts)])
    code, output = shop.run(config, reuse="latest")
    assert code == 0, output
    assert sorted([*kept, *rows_in(shop, "second")]) == list(range(40))


def test_a_file_system_that_is_read_only(shop, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    shop.out = small_disk / "out"
    code, output = shop.run(shop.config([shop.model()], [shop.dataset("a")]))
    assert code == 2
    assert "choose another with -w" in output


def test_torn_and_damaged_lines_after_a_kill(shop, unbroken):
    model = logged(shop, "first", fail_on="row 8 of a")
    assert shop.run(shop.config([model], [shop.dataset("a")]), mode="infer", workers=True)[0] == 1
    journal = shop.file("predictions", "m", "a", ".journal")
    lines = journal.read_bytes().split(b"\n")
    assert len(lines) == 9
    lines[3] = lines[3][:-7] + b"\0" * 7
    journal.write_bytes(b"\n".join(lines)[:-4])
    kept = [i for i in range(8) if i not in (3, 7)]
    finish_and_compare(shop, unbroken, kept)
    log = shop.file("logs/infer", "m", "a", ".out").read_text()
    assert "torn last line dropped" in log
    assert "1 damaged lines dropped, the first is line 4" in log
    assert json.loads(shop.file("results", "m", "a").read_text())["average_ppl"] > 0
