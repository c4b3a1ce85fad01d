"""Tasks that say where they ran and misbehave on demand."""

import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from opencompass_ext.errors import DataError, ModelLoadError
from opencompass_ext.tasks import BaseTask


class EchoTask(BaseTask):
    """Does what its dataset says, and notes process and environment in a file."""

    stage = "infer"

    def run(self, report, models):
        notes = Path(self.spec.run_folder) / "notes"
        notes.mkdir(exist_ok=True)
        name = f"{self.model['abbr']}-{self.dataset['abbr']}"
        tries = len(list(notes.glob(f"{name}.*")))
        note = {
            "pid": os.getpid(),
            "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "stdin": sys.stdin.read(),
        }
        running = Path(self.spec.run_folder) / f"{name}.running"
        running.touch()
        note["at_once"] = len(list(running.parent.glob("*.running")))
        (notes / f"{name}.{tries}").write_text(json.dumps(note))
        try:
            getattr(self, self.dataset.get("do", "nothing"))(tries)
        finally:
            running.unlink()
        return "done"

    def nothing(self, tries):
        pass

    def meet(self, tries):
        """Wait until as many tasks run at the same time as the dataset says."""
        met = Path(self.spec.run_folder) / "met"
        end = time.monotonic() + 30
        while not met.exists():
            if len(list(Path(self.spec.run_folder).glob("*.running"))) >= self.dataset["others"]:
                met.touch()
            assert time.monotonic() < end, "alone"
            time.sleep(0.01)

    def nap(self, tries):
        time.sleep(0.1)

    def speak(self, tries):
        print("from print in", self.dataset["abbr"])
        os.write(1, b"from native code\n")
        os.write(2, b"from native code's stderr\n")
        subprocess.run(["echo", "from a child"], check=True)

    def tell(self, tries):
        logging.getLogger("opencompass_ext.models.some").warning("a licence: %s", "中")
        logging.getLogger("opencompass_ext.models.some").debug("a detail")
        logging.getLogger("another_package").warning("its own affair")

    def user_error(self, tries):
        raise DataError("data.jsonl:3: no column\n'text'")

    def bug(self, tries):
        raise KeyError("what")

    def bug_once(self, tries):
        if tries == 0:
            raise RuntimeError("CUDA error: device-side assert\nand many more lines")

    def no_model(self, tries):
        raise ModelLoadError("no weights here")

    def hang(self, tries):
        time.sleep(60)

    def hang_once(self, tries):
        if tries == 0:
            time.sleep(60)

    def exit_3(self, tries):
        print("what led to it", flush=True)
        os._exit(3)

    def segfault(self, tries):
        os.kill(os.getpid(), signal.SIGSEGV)

    def die_with_a_child_left(self, tries):
        self.leave_a_child(tries)
        os.kill(os.getpid(), signal.SIGKILL)

    def leave_a_child(self, tries):
        """Leave a process behind that holds a lock until it ends."""
        with open(Path(self.spec.run_folder) / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fork() == 0:
                time.sleep(20)
                os._exit(0)


class NoTask:
    pass


class Remote:
    is_on_server = True
