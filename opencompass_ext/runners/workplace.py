"""What a schedule needs of the place where its workers are: this machine, or a cluster.

A runner for another kind of place writes one class of each of the two kinds below and hands the
workplace to ``Schedule``; who does what, retries, time limits and Ctrl-C are seen to there.
"""

from __future__ import annotations

from typing import Protocol

from opencompass_ext.records import TaskSpec
from opencompass_ext.tasks.protocol import Assignment, Event


class Worker(Protocol):
    """Does one assignment after another and tells of it in the events of ``tasks.protocol``.

    All its methods return at once. They are called from one thread.
    """

    @property
    def events(self) -> int:
        """File descriptor that is readable when there may be events, or the worker has ended.

        Where events do not come through a file, the reading end of a pipe that a thread writes a
        byte into does.
        """
        ...

    def assign(self, assignment: Assignment) -> None:
        """Give the worker its next task: it has said ``Ready`` and has none in hand.

        That it has just ended is for ``has_ended`` to say.
        """
        ...

    def dismiss(self) -> None:
        """Let the worker end: at once when idle, else when the rows in hand are safe on disk.

        One that still waits in the queue of a cluster is called off.
        """
        ...

    def kill(self) -> None:
        """End the worker, and all that it started, now. It may have ended already."""
        ...

    def read_events(self) -> list[Event]:
        """Return the events that have come in since the last call."""
        ...

    def has_ended(self) -> bool:
        """Whether the worker is gone, also if it never started. Events may still be unread."""
        ...

    def last_words(self, log: str) -> str:
        """Return how a worker that has ended came to its end, as one line.

        Args:
            log: The log of the task it had in hand.
        """
        ...

    def close(self) -> None:
        """Free what is left of a worker that has ended."""
        ...


class Workplace(Protocol):
    """Where workers come from."""

    def hire(self, group: str, first: TaskSpec, log: str) -> Worker | None:
        """Start a worker for a group of tasks, or return None while there is no room for one.

        Asked again and again while there is work for one worker more, so an answer takes no time.

        Args:
            group: ``BaseTask.worker_group`` of the tasks: equal for tasks that one worker can do
                one after another.
            first: A task of the group; all of them need as many GPUs.
            log: File for what the worker says before it has a task.

        Raises:
            OpenCompassExtError: No worker can be started; the run ends.
        """
        ...

    def release(self, worker: Worker) -> None:
        """Take back the room of a worker that has ended; called once for each worker hired."""
        ...
