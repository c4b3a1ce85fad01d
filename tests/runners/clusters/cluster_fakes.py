"""A task that says where it ran and does what its dataset says."""

import json
import os
import signal
import time
from pathlib import Path

from opencompass_ext.errors import DataError
from opencompass_ext.tasks import BaseTask


class NoteTask(BaseTask):
    """Notes process, environment and model in a file, and how often it was tried."""

    stage = "infer"

    def run(self, report, models):
        self.report = report
        self.folder = Path(self.spec.run_folder)
        name = f"{self.model['abbr']}-{self.dataset['abbr']}".replace("/", "_")
        notes = self.folder / "notes"
        notes.mkdir(exist_ok=True)
        tries = len(list(notes.glob(f"{name}.*")))
        environment = {
            key: os.environ.get(key)
            for key in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "SLURMD_NODENAME")
        }
        note = {"pid": os.getpid(), "cwd": os.getcwd(), **environment}
        (notes / f"{name}.{tries}").write_text(json.dumps(note))
        getattr(self, self.dataset.get("do", "nothing"))(tries)
        return "done"

    def nothing(self, tries):
        print("from print in", self.dataset["abbr"])

    def user_error(self, tries):
        raise DataError("data.jsonl:3: no column")

    def bug_once(self, tries):
        if tries == 0:
            raise RuntimeError("out of luck")

    def kill_itself_once(self, tries):
        if tries == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def exit_3(self, tries):
        print("what led to it", flush=True)
        os._exit(3)

    def wait(self, tries):
        """Report rows until the file ``go`` is there."""
        end = time.monotonic() + 60
        rows = 0
        while not (self.folder / "go").exists():
            rows += 1
            self.report(rows, 10_000, rows)
            assert time.monotonic() < end, "nobody said go"
            time.sleep(0.05)
