"""Where workers in allocations of Slurm come from: queued as job arrays, watched, called off."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType

from opencompass_ext.errors import OutputError
from opencompass_ext.outputs import TIME_FORMAT, RunFolder
from opencompass_ext.python_process import module_command, module_environment
from opencompass_ext.records import TaskSpec
from opencompass_ext.runners import slurm_commands
from opencompass_ext.runners.mailbox import SECONDS_BETWEEN_LOOKS
from opencompass_ext.runners.slurm_commands import ENDED_STATES, JobState, SlurmError
from opencompass_ext.runners.slurm_job import PATIENCE_SECONDS
from opencompass_ext.runners.slurm_workers import SlurmWorker
from opencompass_ext.tasks.base import task_class
from opencompass_ext.writing import writing

logger = logging.getLogger(__name__)

# Controllers serve many users, and answer slowly when all of them ask all the time.
SECONDS_BETWEEN_POLLS = 5.0
# After a refusal: the same request would most likely be refused again at once.
SECONDS_AFTER_REFUSAL = 10.0
_SECONDS_BETWEEN_SIGNS_OF_LIFE = PATIENCE_SECONDS / 9
# The controller may take a moment until it shows a job that it has just taken.
_POLLS_UNTIL_LOST = 3

_JOB_MODULE = "opencompass_ext.runners.slurm_job"
# Its arguments: the folder for logs, and the command.
_SCRIPT = """\
#!/bin/sh
log="$1/${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}.out"
shift
exec "$@" >"$log" 2>&1
"""


def request_options(name: str, num_gpus: int) -> tuple[str, ...]:
    """Return the options of ``sbatch`` for a worker.

    Args:
        name: Name of the job for people who look at the queue; blanks become underscores.
        num_gpus: GPUs that it needs.

    Example:
        >>> request_options("my model", 2)
        ('--job-name=my_model', '--nodes=1', '--ntasks=1', '--gres=gpu:2')
    """
    options = (f"--job-name={'_'.join(name.split())[:128]}", "--nodes=1", "--ntasks=1")
    return (*options, f"--gres=gpu:{num_gpus}") if num_gpus else options


class SlurmWorkplace:
    """Queues workers as job arrays and watches them from a thread; a ``Workplace``.

    A context manager: what is left at its end is cancelled.

    Args:
        options: Options of ``sbatch`` for all jobs.
        folder: Folder of the run.
    """

    def __init__(self, options: Sequence[str], folder: RunFolder) -> None:
        self._options = tuple(options)
        self._folder = folder
        self._queue = folder.queue(datetime.now().strftime(TIME_FORMAT))
        self._script = self._queue / "job.sh"
        self._lock = threading.Lock()
        self._workers: list[SlurmWorker] = []
        self._num_arrays = 0
        self._no_request_before = 0.0
        self._shown: Counter[JobState] = Counter()
        self._last_warning = ""
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> SlurmWorkplace:
        with writing(self._queue):
            self._queue.mkdir(mode=0o700, parents=True)
            self._script.write_text(_SCRIPT)
            self._folder.job_log("").parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closing.set()
        self._thread.join()
        left = [w.job for w in self._workers if w.job is not None and not w.has_ended()]
        try:
            slurm_commands.cancel(left)
        except SlurmError as refusal:
            logger.warning("%s; cancel by hand: scancel %s", refusal, " ".join(left))
        shutil.rmtree(self._queue, ignore_errors=True)

    def hire(self, group: str, first: TaskSpec, log: str) -> SlurmWorker | None:
        """Ask for an allocation, or return None for a while after Slurm has refused one."""
        if time.monotonic() < self._no_request_before:
            return None
        num_gpus = task_class(first.type).num_gpus(first)
        worker = SlurmWorker(request_options(str(first.model["abbr"]), num_gpus), num_gpus)
        with self._lock:
            self._workers.append(worker)
        return worker

    def release(self, worker: object) -> None:
        """Watch a worker no longer."""
        with self._lock:
            self._workers = [other for other in self._workers if other is not worker]

    # What follows runs in the thread.

    def _watch(self) -> None:
        steps = [
            _Regularly(0.0, self._submit),
            _Regularly(0.0, self._collect),
            _Regularly(0.0, self._call_off),
            _Regularly(SECONDS_BETWEEN_POLLS, self._poll),
            _Regularly(_SECONDS_BETWEEN_SIGNS_OF_LIFE, self._give_signs_of_life),
        ]
        while not self._is_closing.wait(SECONDS_BETWEEN_LOOKS):
            for step in steps:
                try:
                    step()
                except (SlurmError, OSError) as error:
                    self._warn(f"{error}; trying again")
                except Exception as error:
                    # The schedule would wait for ever for workers that nobody watches.
                    logger.exception("watching the jobs of Slurm")
                    for worker in self._live():
                        worker.finish(f"its job cannot be watched: {error}")

    def _warn(self, text: str) -> None:
        if text != self._last_warning:  # controllers are down for minutes
            self._last_warning = text
            logger.warning("Slurm: %s", text)

    def _live(self) -> list[SlurmWorker]:
        with self._lock:
            return [worker for worker in self._workers if not worker.has_ended()]

    def _submit(self) -> None:
        """Queue new workers: one array for all that make the same request."""
        arrays: dict[tuple[str, ...], list[SlurmWorker]] = {}
        for worker in self._live():
            if worker.job is None and (worker.is_dismissed or worker.is_killed):
                worker.finish("called off before it was queued")
            elif worker.job is None:
                arrays.setdefault(worker.request, []).append(worker)
        for request, workers in arrays.items():
            try:
                self._submit_array(request, workers)
            except (SlurmError, OutputError) as error:
                self._no_request_before = time.monotonic() + SECONDS_AFTER_REFUSAL
                for worker in workers:
                    worker.finish(f"no job could be queued: {error}")

    def _submit_array(self, request: tuple[str, ...], workers: Sequence[SlurmWorker]) -> None:
        self._num_arrays += 1
        folder = self._queue / str(self._num_arrays)
        for index, worker in enumerate(workers):
            worker.open_mailbox(folder / str(index))
        num_gpus = workers[0].num_gpus
        logs = self._folder.job_log("").parent.absolute()
        jobs = slurm_commands.submit(
            # A path for --output would be a pattern, in which \ and % have a meaning.
            [*self._options, *request, "--no-requeue", "--output=/dev/null"],
            len(workers),
            self._script.absolute(),
            [str(logs), *module_command(_JOB_MODULE, str(folder.absolute()), str(num_gpus))],
            module_environment(os.environ),
        )
        for job, worker in zip(jobs, workers, strict=True):
            worker.is_queued_as(job, self._folder.job_log(job))

    def _collect(self) -> None:
        for worker in self._live():
            worker.collect()

    def _call_off(self) -> None:
        queued = [worker for worker in self._live() if worker.job is not None]
        killed = [w for w in queued if w.is_killed and not w.is_cancelled]
        dismissed = [w for w in queued if w.is_dismissed and not w.knows_of_dismissal]
        for worker in dismissed:
            worker.tell_end()
        slurm_commands.cancel([w.job for w in killed if w.job])
        for worker in killed:
            worker.is_cancelled = True
        slurm_commands.cancel([w.job for w in dismissed if w.job], only_pending=True)
        for worker in dismissed:
            worker.knows_of_dismissal = True

    def _poll(self) -> None:
        """Ask Slurm for the states of all jobs, and see to those that have ended or are lost."""
        queued = {worker.job: worker for worker in self._live() if worker.job is not None}
        if not queued:
            return
        states = slurm_commands.query_states(queued)
        for job, worker in queued.items():
            worker.polls_without = 0 if job in states else worker.polls_without + 1
            is_lost = worker.polls_without >= _POLLS_UNTIL_LOST
            if is_lost or (job in states and states[job].state in ENDED_STATES):
                worker.collect()  # what it may still have written
                end = slurm_commands.how_it_ended(job) or "is lost: Slurm does not know it any more"
                worker.finish(f"Slurm job {job} {end}")
        self._tell(Counter(states[job] for job in queued if job in states))

    def _tell(self, states: Counter[JobState]) -> None:
        if states != self._shown:
            self._shown = states
            logger.info("Slurm: %s", ", ".join(_in_words(*item) for item in states.items()))

    def _give_signs_of_life(self) -> None:
        for worker in self._live():
            worker.give_sign_of_life()


def _in_words(state: JobState, count: int) -> str:
    reason = "" if state.reason in ("", "None") else f" ({state.reason})"
    return f"{count} {state.state.lower()}{reason}"


class _Regularly:
    """A function that is called at most once in so many seconds, however often it is asked for."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self._seconds = seconds
        self._function = function
        self._next = time.monotonic()

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._seconds
            self._function()
