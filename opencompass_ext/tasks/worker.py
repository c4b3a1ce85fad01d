"""A process that does tasks one after another and keeps its model loaded between them.

Started by a runner as ``python -m opencompass_ext.tasks.worker --events-fd N``; the messages are
described in ``protocol``. All output, of Python and of native code, goes to the log of the task in
hand. When the runner goes away, even by SIGKILL, the worker ends too, after the rows in hand are
safe on disk.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import logging
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from opencompass_ext.errors import OpenCompassExtError
from opencompass_ext.logs import log_to_stderr, pass_messages_on
from opencompass_ext.tasks.base import ModelCache, task_class
from opencompass_ext.tasks.protocol import (
    EXIT_INTERRUPTED,
    Assignment,
    Done,
    Event,
    Failed,
    Progressed,
    Ready,
    Said,
    event_to_line,
    failure,
)
from opencompass_ext.writing import writing

# Run as a script, this module is named __main__.
logger = logging.getLogger("opencompass_ext.tasks.worker")

# How long a batch in hand may still take once the runner has gone. What is cut off after that is
# that batch alone: the journal stays whole.
GRACE_SECONDS = 30.0
# Often enough for a live display; a small model does far more batches per second.
_SECONDS_BETWEEN_REPORTS = 0.1


class Worker:
    """Does the assignments that come in until there are no more.

    Args:
        assignments: Lines that wait for the next one, such as a pipe.
        tell: Called with the line of each event. ``BrokenPipeError`` means that nobody listens.
    """

    def __init__(self, assignments: Iterable[bytes], tell: Callable[[bytes], object]) -> None:
        self._assignments = assignments
        self._tell = tell
        self._inbox: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
        self._is_stopping = False
        self._last_report = 0.0

    def run(self) -> int:
        """Do all assignments and return the exit code of the process."""
        threading.Thread(target=self._listen, daemon=True).start()
        pass_messages_on(lambda level, text: self._send(Said(level, text)))
        models = ModelCache()
        self._send(Ready())
        while (assignment := self._inbox.get()) is not None:
            try:
                event = self._do(assignment, models)
            except KeyboardInterrupt:
                logger.info("interrupted: finished rows are kept, go on with -r")
                return EXIT_INTERRUPTED
            self._send(event)
            if isinstance(event, Failed) and not event.is_users:
                return 1
        return 0

    def stop(self) -> None:
        """End after the rows in hand: whoever gave the process its time takes it back."""
        self._is_stopping = True
        self._inbox.put(None)

    def _listen(self) -> None:
        for line in self._assignments:
            self._inbox.put(Assignment.from_line(line))
        self._is_stopping = True
        self._inbox.put(None)
        time.sleep(GRACE_SECONDS)
        os._exit(EXIT_INTERRUPTED)

    def _do(self, assignment: Assignment, models: ModelCache) -> Event:
        spec = assignment.spec
        start = time.monotonic()
        try:
            _redirect_output(Path(assignment.log))
            logger.info("%s started in process %d", spec.name, os.getpid())
            status = task_class(spec.type)(spec, **spec.options).run(self._report, models)
        except OpenCompassExtError as error:
            logger.error("%s failed: %s", spec.name, error)
            return failure(error)
        except Exception as error:
            traceback.print_exc()
            return failure(error)
        logger.info("%s %s after %.1f s", spec.name, status, time.monotonic() - start)
        return Done(status)

    def _report(self, rows_done: int, rows_total: int, tokens_done: int) -> None:
        # The batch is safe on disk at this point, so here is where the task can be broken off.
        if self._is_stopping:
            raise KeyboardInterrupt
        now = time.monotonic()
        if rows_done == rows_total or now - self._last_report >= _SECONDS_BETWEEN_REPORTS:
            self._last_report = now
            self._send(Progressed(rows_done, rows_total, tokens_done))

    def _send(self, event: Event) -> None:
        try:
            self._tell(event_to_line(event))
        except BrokenPipeError:
            os._exit(EXIT_INTERRUPTED)


def _redirect_output(log: Path) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    with writing(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def main(argv: list[str] | None = None) -> int:
    """Run a worker on this process's standard input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events-fd", type=int, required=True)
    events = parser.parse_args(argv).events_fd
    # Processes that a task starts may neither take assignments nor keep the pipe open.
    os.set_inheritable(events, False)
    assignments = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    faulthandler.enable()
    log_to_stderr()
    worker = Worker(assignments, functools.partial(os.write, events))
    signal.signal(signal.SIGTERM, lambda number, frame: worker.stop())
    return worker.run()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without waiting for threads that a task has left behind, or for native code to tidy up.
    os._exit(code)
