"""Workers in allocations of Slurm, each from its place in the queue to its end."""

from __future__ import annotations

import threading
from pathlib import Path

from opencompass_ext.runners.inbox import Inbox
from opencompass_ext.runners.mailbox import END, STILL_HERE, Mailbox, Reader, Writer
from opencompass_ext.runners.slurm_job import ENDED
from opencompass_ext.runners.worker_process import last_line
from opencompass_ext.tasks.protocol import Assignment, Event


class SlurmWorker:
    """A worker that is, or will be, one job of Slurm; a ``Worker``.

    The schedule says what it wants of it; the thread of the workplace sees to that.

    Args:
        request: Options of ``sbatch`` that are its own; workers of equal ones can share an array.
        num_gpus: GPUs of the allocation.

    Attributes:
        job: Name of its job; None before it is queued.
        is_dismissed: It is to get no further task.
        is_killed: Its job is to be cancelled.
        knows_of_dismissal: Its job has been told, and is cancelled if it has not started.
        is_cancelled: Slurm has been told to cancel its job.
        polls_without: How many times in a row Slurm did not know the job.
    """

    def __init__(self, request: tuple[str, ...], num_gpus: int) -> None:
        self.request = request
        self.num_gpus = num_gpus
        self.job: str | None = None
        self.is_dismissed = False
        self.is_killed = False
        self.knows_of_dismissal = False
        self.is_cancelled = False
        self.polls_without = 0
        self._log: Path | None = None
        self._end: str | None = None
        self._inbox = Inbox()
        self._reader: Reader | None = None
        self._writer: Writer | None = None
        self._lock = threading.Lock()  # of the writer: both threads use it, one closes it

    # For the schedule.

    @property
    def events(self) -> int:
        """File descriptor to wait on."""
        return self._inbox.descriptor

    def assign(self, assignment: Assignment) -> None:
        """Put the next task into the mailbox."""
        self._write(assignment.to_line())

    def dismiss(self) -> None:
        """Have the worker told that there is nothing more to do, or its job taken off the queue."""
        self.is_dismissed = True

    def kill(self) -> None:
        """Have the job cancelled."""
        self.is_killed = True

    def read_events(self) -> list[Event]:
        """Return the events that have come in since the last call."""
        return self._inbox.take()

    def has_ended(self) -> bool:
        """Whether the job is gone, or will never be."""
        return self._end is not None

    def last_words(self, log: str) -> str:
        """Return how the job ended, and the last line of its log."""
        assert self._end is not None
        written = [path for path in (Path(log), self._log) if path is not None and path.is_file()]
        if written:
            return f"{self._end}: {last_line(str(written[0]))}"
        if self._log is not None:
            return f"{self._end}, without a word: can every node write to {self._log.parent}?"
        return self._end

    def close(self) -> None:
        """Free the descriptors."""
        self._inbox.close()
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    # For the thread of the workplace.

    def open_mailbox(self, folder: Path) -> None:
        """Make the mailbox that the job will look for.

        Raises:
            OutputError: It cannot be written.
        """
        mailbox = Mailbox(folder)
        mailbox.create()
        self._reader = Reader(mailbox.events)
        with self._lock:
            self._writer = Writer(mailbox.assignments)

    def is_queued_as(self, job: str, log: Path) -> None:
        """Note the name of the job and where its output goes."""
        self._log = log
        self.job = job

    def collect(self) -> None:
        """Hand over what the worker has written."""
        if self._reader is None:
            return
        for line in self._reader.read_lines():
            if line.startswith(ENDED):
                self.finish(f"the worker ended with exit code {line[len(ENDED) :].decode()}")
            else:
                self._inbox.put(line + b"\n")

    def finish(self, how: str) -> None:
        """Note how it ended, unless that is known."""
        if self._end is None:
            self._end = how
            self._inbox.ring()

    def give_sign_of_life(self) -> None:
        """Let the worker know that the runner is there."""
        self._write(STILL_HERE + b"\n")

    def tell_end(self) -> None:
        """Let the worker know that there is nothing more to do."""
        self._write(END + b"\n")

    def _write(self, lines: bytes) -> None:
        with self._lock:
            if self._writer is not None:
                self._writer.write(lines)
