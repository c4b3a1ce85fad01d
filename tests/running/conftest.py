import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.running.run import execute

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

DRIVER = textwrap.dedent("""
    import json, sys
    from opencompass_ext.running.run import execute
    config, arguments = json.load(open(sys.argv[1]))
    sys.exit(execute(config, config_text="# the config\\n", **arguments))
""")


class Workshop:
    """Makes configs and data under one folder, and runs them in processes of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.out = folder / "out"

    def data(self, name, rows=12):
        path = self.folder / f"{name}.jsonl"
        texts = rows if isinstance(rows, list) else [f"row {i} of {name}" for i in range(rows)]
        lines = [json.dumps({"text": text, "label": [[0, 3, 1]]}) + "\n" for text in texts]
        path.write_text("".join(lines))
        return path

    def dataset(self, name, rows=12, **changes):
        return {
            "type": "run_fakes.Texts",
            "abbr": name,
            "path": str(self.data(name, rows)),
            "infer_cfg": {
                "prompt_template": {"type": "PromptTemplate", "template": "{text}"},
                "retriever": {"type": "ZeroRetriever"},
                "inferencer": {"type": "InferencePPLOnlyInferencer"},
            },
            "eval_cfg": {"evaluator": {"type": "run_fakes.MeanEvaluator"}},
            **changes,
        }

    def model(self, abbr="m", **changes):
        return {"type": "ScriptedModel", "abbr": abbr, "batch_size": 2, **changes}

    def config(self, models, datasets, **runner):
        return {
            "models": models,
            "datasets": datasets,
            "infer": {"runner": {"type": "LocalRunner", **runner}},
            "eval": {"runner": {"type": "LocalRunner"}},
            "summarizer": {"type": "run_fakes.RecordingSummarizer"},
            "work_dir": str(self.out),
        }

    def start(self, config, **arguments):
        """Start a run in a process of its own; SIGINT works there even if it is ignored here."""
        job = self.folder / "jobs" / f"{time.monotonic_ns()}.json"
        job.parent.mkdir(exist_ok=True)
        job.write_text(json.dumps([config, arguments]))
        driver = job.with_suffix(".py")
        driver.write_text(DRIVER)
        return subprocess.Popen(
            [sys.executable, str(driver), str(job)],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, config, *, workers=False, **arguments):
        """Run to the end; return exit code and output. Without workers it takes no time."""
        arguments.setdefault("debug", not workers)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                code = execute(config, config_text="# the config\n", **arguments)
            except ConfigError as error:
                code = 2
                print(error)
        root = logging.getLogger()
        root.handlers = [h for h in root.handlers if h.get_name() != "opencompass_ext"]
        logging.getLogger("opencompass_ext").setLevel(logging.NOTSET)
        return code, output.getvalue()

    @property
    def root(self):
        """The folder of the newest run."""
        return max(self.out.iterdir())

    def file(self, kind, model, dataset, suffix=".json"):
        return self.root / kind / model / f"{dataset}{suffix}"

    def rows_in_journal(self, model, dataset):
        try:
            content = self.file("predictions", model, dataset, ".journal").read_bytes()
        except (FileNotFoundError, ValueError):
            return []
        return [json.loads(line)["i"] for line in content.split(b"\n")[:-1]]

    def wait_for_rows(self, model, dataset, count):
        """Wait until at least ``count`` rows are in the journal."""
        self.wait_until(lambda: len(self.rows_in_journal(model, dataset)) >= count)

    @staticmethod
    def wait_until(is_true, seconds=60):
        end = time.monotonic() + seconds
        while not is_true():
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.02)

    @property
    def summary(self):
        return json.loads((self.root / "summary" / "summary_test.json").read_text())


@pytest.fixture
def shop(tmp_path):
    return Workshop(tmp_path)
