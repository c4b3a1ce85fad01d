import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opencompass_ext.cli import app, main
from opencompass_ext.errors import ConfigError, DataError

REPOSITORY = Path(__file__).parents[2]

HEAVY = ("torch", "transformers", "datasets", "scipy", "pandas", "pyarrow")
PROBE = """
import json, sys
from opencompass_ext.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as error:
    code = error.code
print(json.dumps([code, sorted(sys.modules)]))
"""


def probe(*argv, cwd):
    """Run a command line in a fresh process; return its exit code and the modules it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *argv],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stdout.splitlines()[-1])
    return code, set(modules)


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["list"],
        ["validate", "eval_demo.py"],
        ["eval_demo.py", "--dry-run"],
    ],
    ids=lambda argv: argv[0],
)
def test_commands_that_only_look_load_nothing_heavy(config_file, argv):
    code, modules = probe(*argv, cwd=config_file.parent)
    assert code == 0
    assert modules.isdisjoint(HEAVY)


@pytest.mark.parametrize("argv", [["--help"], ["list", "--help"], ["validate", "--help"]])
def test_help_does_not_even_load_mmengine(tmp_path, argv):
    _, modules = probe(*argv, cwd=tmp_path)
    assert "mmengine" not in modules


def test_a_dry_run_writes_nothing(config_file, capsys):
    before = sorted(config_file.parent.rglob("*"))
    assert main(["eval_demo.py", "--dry-run"]) == 0
    assert "OpenICLInfer[uniform/demo]" in capsys.readouterr().out
    assert sorted(config_file.parent.rglob("*")) == before


def test_mistakes_end_in_one_message_and_code_2(config_file, write, capsys):
    write("bad.py", "from .nowhere import x")
    for argv in (["bad.py"], ["nowhere.py"], ["eval_demo.py", "-m", "viz"], ["--modle"]):
        assert main(argv) == 2
        err = capsys.readouterr().err
        assert err.startswith("error: ")
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("x"), 2), (DataError("x"), 1), (KeyboardInterrupt(), 130)],
)
def test_exit_codes(monkeypatch, capsys, error, code):
    def fail(argv):
        raise error

    monkeypatch.setattr(app, "run_command", fail)
    assert main([]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_an_interrupted_check_does_not_speak_of_rows(monkeypatch, capsys):
    def interrupt(argv):
        raise KeyboardInterrupt

    monkeypatch.setitem(app._COMMANDS, "validate", interrupt)
    assert main(["validate", "x.py"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_bug_keeps_its_traceback(monkeypatch):
    def fail(argv):
        raise ZeroDivisionError

    monkeypatch.setattr(app, "run_command", fail)
    with pytest.raises(ZeroDivisionError):
        main([])


def test_unknown_keys_can_be_let_pass(config_file, write, capsys):
    write("odd.py", config_file.read_text() + "\nworkdir = 'x'\n")
    assert main(["odd.py", "--dry-run"]) == 2
    assert main(["odd.py", "--dry-run", "--no-strict"]) == 0
    assert "warning: odd.py:16: workdir: unknown key" in capsys.readouterr().err


def test_an_unknown_key_that_is_let_pass_does_not_stop_the_run(config_file, write):
    write("odd.py", config_file.read_text().replace("vocab_size=4", "vocab_size=4, colour='red'"))
    assert main(["odd.py"]) == 2
    assert main(["odd.py", "--no-strict", "--debug"]) == 0


def run_unread(*argv, cwd, unbuffered, stderr=subprocess.PIPE):
    """Run a command line whose output goes into a pipe that nobody reads."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    script = "import sys; from opencompass_ext.cli import main; sys.exit(main())"
    try:
        return subprocess.run(
            [sys.executable, "-c", script, *argv],
            cwd=cwd,
            env={
                **os.environ,
                "PYTHONPATH": str(REPOSITORY),
                "PYTHONUNBUFFERED": "1" if unbuffered else "",
            },
            stdout=write_end,
            stderr=stderr,
            text=True,
            check=False,
        )
    finally:
        os.close(write_end)


@pytest.mark.parametrize("unbuffered", [True, False])
def test_output_into_a_closed_pipe_is_no_traceback(tmp_path, unbuffered):
    done = run_unread("list", cwd=tmp_path, unbuffered=unbuffered)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", [True, False])
@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT])
def test_a_run_that_nobody_reads_keeps_its_exit_code(config_file, tmp_path, unbuffered, stderr):
    argv = ("eval_demo.py", "-w", "out", "--debug")
    done = run_unread(*argv, cwd=tmp_path, unbuffered=unbuffered, stderr=stderr)
    assert done.returncode == 0
    assert "Traceback" not in (done.stderr or "")
    assert len(list(tmp_path.glob("out/*/summary/*.csv"))) == 1


def test_a_failed_run_that_nobody_reads_still_fails(config_file, tmp_path):
    (tmp_path / "demo.jsonl").write_text("no JSON\n")
    done = run_unread("eval_demo.py", "-w", "out", "--debug", cwd=tmp_path, unbuffered=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_class_beside_the_config_works_in_workers(write, config_file, tmp_path, monkeypatch):
    """The console script: neither the config's folder nor the working folder is on sys.path."""
    write(
        "experiment/my_rows.py",
        """
        from opencompass_ext.datasets import BaseDataset

        class Mine(BaseDataset):
            @staticmethod
            def load(count):
                from datasets import Dataset
                return Dataset.from_list([{"text": "ab", "label": [[0, 2, 1]]}] * count)
        """,
    )
    text = config_file.read_text()
    text = text.replace("type='InferencePPLDataset'", "type=Mine")
    text = text.replace("path='demo.jsonl'", "count=3")
    write("experiment/c.py", "from my_rows import Mine\n" + text)
    script = "import sys; sys.path.remove(''); from opencompass_ext.cli import main; "
    done = subprocess.run(
        [sys.executable, "-c", script + "sys.exit(main())", "experiment/c.py", "-w", "out"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (predictions,) = tmp_path.glob("out/*/predictions/uniform/demo.json")
    assert len(json.loads(predictions.read_text())) == 3


def test_the_dumped_config_is_good_again(config_file, tmp_path):
    assert main(["eval_demo.py", "-w", "out", "--limit", "1", "--debug"]) == 0
    (dumped,) = tmp_path.glob("out/*/configs/*.py")
    assert "'limit': 1" in dumped.read_text()
    assert main(["validate", str(dumped)]) == 0


def test_no_file_of_a_run_holds_a_secret(config_file, write, tmp_path):
    text = config_file.read_text().replace("vocab_size=4", "path='sk-1', vocab_size=4")
    text = text.replace("type='AverageInferencePPLEvaluator'", "type=Judged, api_key='sk-2'")
    write("c.py", f"from judged_rows import Judged\n{text}\nmy = dict(api_key='sk-1')\n")
    write(
        "judged_rows.py",
        """
        from opencompass_ext.evaluators import BaseEvaluator

        class Judged(BaseEvaluator):
            def __init__(self, api_key): self.api_key = api_key
            def score(self, ppl): return {"rows": len(ppl)}
        """,
    )
    assert main(["c.py", "-w", "out", "--debug"]) == 0
    written = [p for p in tmp_path.glob("out/**/*") if p.is_file()]
    assert {p.suffix for p in written} >= {".py", ".json", ".provenance", ".txt"}
    assert [p for p in written if "sk-2" in p.read_text()] == []
    assert [p for p in written if p.suffix == ".py" and "sk-1" in p.read_text()] == []
