"""How a schedule deals with workers that take long to start, or never do."""

import os

from opencompass_ext.records import TaskSpec
from opencompass_ext.runners.pairs import log_path
from opencompass_ext.runners.schedule import Schedule
from opencompass_ext.running.progress import Progress
from opencompass_ext.tasks.protocol import Done, Ready


class FakeWorker:
    """Starts ``turns`` looks after it was hired (never, when None), and does every task at once."""

    def __init__(self, turns, dies=False):
        self.turns = turns
        self.dies = dies
        self.done = []
        self.is_dismissed = False
        self._waiting_events = []
        # Always readable, so that the schedule never sleeps.
        self._pipe = os.pipe()
        self.events = self._pipe[0]
        os.write(self._pipe[1], b"x")

    def assign(self, assignment):
        self.done.append(assignment.spec.datasets[0]["abbr"])
        self._waiting_events.append(Done("done"))

    def dismiss(self):
        self.is_dismissed = True

    def kill(self):
        self.is_dismissed = True

    def read_events(self):
        if self.turns is not None:
            self.turns -= 1
            if self.turns == 0 and not self.dies:
                self._waiting_events.append(Ready())
        events, self._waiting_events = self._waiting_events, []
        return events

    def has_ended(self):
        if self._waiting_events:
            return False
        return self.is_dismissed or (self.dies and self.turns <= 0)

    def last_words(self, log):
        return "it never came"

    def close(self):
        for end in self._pipe:
            os.close(end)


class FakeWorkplace:
    def __init__(self, workers):
        self.workers = workers
        self.hired = []

    def hire(self, group, first, log):
        if not self.workers:
            return None
        self.hired.append(self.workers.pop(0))
        return self.hired[-1]

    def release(self, worker):
        pass


def run(workers, datasets, tmp_path, **options):
    pairs = [
        TaskSpec("runner_fakes.EchoTask", {"abbr": "m"}, ({"abbr": d},), str(tmp_path))
        for d in datasets
    ]
    workplace = FakeWorkplace(list(workers))
    options = {"retry": 0, "fail_fast": False, "max_num_workers": len(workers), **options}
    with Progress("infer", len(pairs)) as progress:
        outcomes = Schedule(pairs, progress, workplace=workplace, **options).run()
    assert [o.log for o in outcomes if o.log] == [log_path(o.task) for o in outcomes if o.log]
    return [(o.status, o.error) for o in outcomes], workplace


def test_a_worker_that_waits_in_a_queue_holds_no_task_and_is_called_off(tmp_path):
    quick, slow = FakeWorker(turns=1), FakeWorker(turns=None)
    outcomes, _ = run([slow, quick], "abc", tmp_path)
    assert outcomes == [("done", None)] * 3
    assert quick.done == ["a", "b", "c"]
    assert slow.is_dismissed


def test_no_more_workers_are_started_than_tasks_wait(tmp_path):
    workers = [FakeWorker(turns=3) for _ in range(5)]
    _, workplace = run(workers, "ab", tmp_path)
    assert len(workplace.hired) == 2


def test_a_worker_that_never_comes_costs_a_try(tmp_path):
    gone, comes = FakeWorker(turns=1, dies=True), FakeWorker(turns=1)
    outcomes, _ = run([gone, comes], "a", tmp_path, max_num_workers=1, retry=1)
    assert outcomes == [("done", None)]
    assert comes.done == ["a"]


def test_workers_that_never_come_are_a_failure_not_an_endless_loop(tmp_path):
    outcomes, workplace = run(
        [FakeWorker(turns=1, dies=True) for _ in range(9)], "ab", tmp_path, max_num_workers=1
    )
    assert outcomes == [("failed", "it never came")] * 2
    assert len(workplace.hired) == 2


def test_after_a_failure_that_ends_the_run_nobody_is_waited_for(tmp_path):
    gone, slow = FakeWorker(turns=1, dies=True), FakeWorker(turns=None)
    outcomes, _ = run([gone, slow], "ab", tmp_path, fail_fast=True)
    assert outcomes == [("failed", "it never came"), ("skipped", None)]
    assert slow.is_dismissed
