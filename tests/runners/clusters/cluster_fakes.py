"""Tasks, data and a model for workers on clusters."""

import json
import os
import signal
import time
from pathlib import Path

from opencompass_ext.errors import DataError
from opencompass_ext.models import ScriptedModel
from opencompass_ext.records import TaskSpec
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

    def sleep(self, tries):
        """Say nothing for a long time."""
        time.sleep(60)


class Texts:
    """Rows of a JSON Lines file, without the second that loading a data library takes."""

    def __init__(self, path):
        self.test = [json.loads(line) for line in Path(path).read_text().splitlines()]


class LoggedModel(ScriptedModel):
    """Notes each text it has scored in a file."""

    def __init__(self, scored_log, **kwargs):
        super().__init__(**kwargs)
        self.scored_log = scored_log

    def score_spans(self, texts, **kwargs):
        for batch in super().score_spans(texts, **kwargs):
            with open(self.scored_log, "a") as file:
                file.writelines(texts[i].text + "\n" for i in batch)
            yield batch


def make_tasks(folder, names, rows, batch_rows, seconds_per_batch):
    """Return inference tasks of a slow model on datasets whose rows are "row 0 of NAME"..."""
    model = {
        "type": "cluster_fakes.LoggedModel",
        "abbr": "m",
        "scored_log": str(folder / "scored"),
        "batch_size": batch_rows,
        "seconds_per_batch": seconds_per_batch,
    }
    infer_cfg = {
        "prompt_template": {"type": "PromptTemplate", "template": "{text}"},
        "retriever": {"type": "ZeroRetriever"},
        "inferencer": {"type": "InferencePPLOnlyInferencer"},
    }
    tasks = []
    for name in names:
        path = folder / f"{name}.jsonl"
        texts = [{"text": f"row {i} of {name}", "label": [[0, 3, 1]]} for i in range(rows)]
        path.write_text("".join(json.dumps(text) + "\n" for text in texts))
        dataset = {
            "type": "cluster_fakes.Texts",
            "abbr": name,
            "path": str(path),
            "infer_cfg": infer_cfg,
        }
        tasks.append(TaskSpec("OpenICLInferTask", model, (dataset,), str(folder)))
    return tasks
