"""Which worker does which task when, and what follows when one of them dies."""

from __future__ import annotations

import logging
import selectors
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.runners.pairs import has_output, log_path
from opencompass_ext.runners.workplace import Worker, Workplace
from opencompass_ext.running.signals import counted_interrupts
from opencompass_ext.tasks.base import task_class
from opencompass_ext.tasks.protocol import Assignment, Done, Event, Failed, Progressed, Ready, Said

if TYPE_CHECKING:
    from opencompass_ext.running.progress import Progress

logger = logging.getLogger(__name__)

# Events wake the loop at once; this bounds how late a Ctrl-C, or a death that leaves the pipe
# open in some grandchild, is noticed.
_SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(slots=True, eq=False)
class _Pair:
    """A pair of model and dataset, on its way to an outcome."""

    spec: TaskSpec
    log: str
    tries_left: int
    started_at: float = 0.0
    is_overdue: bool = False
    outcome: TaskOutcome | None = None


@dataclass(slots=True, eq=False)
class _Member:
    """A worker and what it is doing.

    Attributes:
        log: Where its output goes until it has a task.
        share: What it takes of ``max_num_workers``: processes of one model count as one worker.
        is_ready: It has started; in the queue of a cluster that can take hours.
        is_dismissed: It is to get no further task.
    """

    worker: Worker
    group: str
    log: str
    share: Fraction
    pair: _Pair | None = None
    is_ready: bool = False
    is_dismissed: bool = False


class Schedule:
    """The course of one ``run`` of a runner.

    Args:
        pairs: Tasks of one model and one dataset each.
        progress: Told what happens.
        workplace: Where workers come from.
        max_num_workers: Workers at the same time. The ``num_procs`` processes of a model count as
            one.
        retry: How many more times a pair is tried after its worker died or failed unexpectedly.
        fail_fast: Start nothing more after a failure.
        timeout: Seconds that a try may take; None for no limit.
    """

    def __init__(
        self,
        pairs: Sequence[TaskSpec],
        progress: Progress,
        *,
        workplace: Workplace,
        max_num_workers: int,
        retry: int,
        fail_fast: bool,
        timeout: float | None = None,
    ) -> None:
        self._timeout = timeout
        self._pairs = [_Pair(spec, log_path(spec), tries_left=1 + retry) for spec in pairs]
        self._progress = progress
        self._workplace = workplace
        self._max_num_workers = max_num_workers
        self._fail_fast = fail_fast
        # Group -> pairs that no worker has yet; workers of a group can do any of its pairs.
        self._waiting: dict[str, deque[_Pair]] = {}
        for pair in self._pairs:
            group = task_class(pair.spec.type).worker_group(pair.spec)
            self._waiting.setdefault(group, deque()).append(pair)
        self._members: list[_Member] = []
        self._lost_groups: set[str] = set()  # their model cannot be loaded
        self._selector = selectors.DefaultSelector()
        self._is_closed = False  # nothing more is started
        self._is_stopping = False  # and what runs is to end early

    def run(self) -> list[TaskOutcome]:
        """Carry out all tasks; see ``BaseRunner.run``."""
        try:
            with counted_interrupts() as interrupts:
                while self._members or (self._has_waiting() and not self._is_closed):
                    if interrupts and not self._is_stopping:
                        self._stop()
                    if len(interrupts) > 1:
                        self._kill_all()
                    self._launch()
                    self._listen()
                    self._dismiss_idle()
                    self._kill_overdue()
                    self._progress.tick()
        finally:
            self._kill_all()
            for member in self._members:
                member.worker.close()
            self._selector.close()
        unfinished = "interrupted" if interrupts else "skipped"
        return [pair.outcome or TaskOutcome(pair.spec, unfinished) for pair in self._pairs]

    def _has_waiting(self) -> bool:
        return any(self._waiting.values())

    # Starting.

    def _launch(self) -> None:
        """Start workers while there is work and room for one more."""
        while not self._is_closed:
            taken = sum((member.share for member in self._members), Fraction(0))
            member = self._next_member(self._max_num_workers - taken)
            if member is None:
                return
            self._members.append(member)
            self._selector.register(member.worker.events, selectors.EVENT_READ, member)

    def _next_member(self, room: Fraction) -> _Member | None:
        """Start a worker for the group with fewest workers that there is room for, if any.

        A group has no more workers that are still starting than pairs that wait for one.
        """
        crew = Counter(member.group for member in self._members)
        starting = Counter(m.group for m in self._members if not (m.is_ready or m.is_dismissed))
        short = [g for g, waiting in self._waiting.items() if len(waiting) > starting[g]]
        for group in sorted(short, key=lambda g: crew[g]):
            first = self._waiting[group][0]
            share = Fraction(1, first.spec.num_procs)
            worker = self._workplace.hire(group, first.spec, first.log) if share <= room else None
            if worker is not None:
                return _Member(worker, group, first.log, share)
        return None

    def _assign(self, member: _Member) -> None:
        """Give a worker the next pair of its group, or let it end."""
        if self._is_closed or member.is_dismissed or not self._waiting[member.group]:
            self._dismiss(member)
            return
        member.pair = self._take_next(member.group)
        self._progress.started(member.pair.spec)
        member.worker.assign(Assignment(member.pair.spec, member.pair.log))

    def _take_next(self, group: str) -> _Pair:
        pair = self._waiting[group].popleft()
        pair.tries_left -= 1
        pair.is_overdue = False
        pair.started_at = time.monotonic()
        return pair

    def _dismiss_idle(self) -> None:
        """Call off workers that have not started yet and will find nothing to do."""
        for member in self._members:
            if not member.is_ready and (self._is_closed or not self._waiting[member.group]):
                self._dismiss(member)

    def _dismiss(self, member: _Member) -> None:
        if not member.is_dismissed:
            member.is_dismissed = True
            member.worker.dismiss()

    # Listening.

    def _listen(self) -> None:
        """Wait for a moment and deal with what the workers say, and with those that have ended."""
        for key, _ in self._selector.select(timeout=_SECONDS_BETWEEN_LOOKS):
            self._hear(key.data)
        for member in [m for m in self._members if m.worker.has_ended()]:
            self._hear(member)
            self._bury(member)

    def _hear(self, member: _Member) -> None:
        for event in member.worker.read_events():
            self._handle(member, event)

    def _handle(self, member: _Member, event: Event) -> None:
        pair = member.pair
        if isinstance(event, Said):
            logger.log(event.level, "%s%s", f"{pair.spec.name}: " if pair else "", event.text)
            return
        if isinstance(event, Ready):
            member.is_ready = True
            self._assign(member)
            return
        assert pair is not None, f"{event} from an idle worker"
        match event:
            case Progressed(rows_done, rows_total, tokens_done):
                self._progress.advanced(pair.spec, rows_done, rows_total, tokens_done)
            case Done(status):
                member.pair = None
                self._close(pair, "done", status)
                self._assign(member)
            case Failed(error, is_users, is_models):
                member.pair = None
                # Several workers may find at the same time that a model cannot be loaded.
                is_told = is_models and member.group in self._lost_groups
                self._failed(pair, member.group, error, may_retry=not is_users, is_told=is_told)
                if is_models:
                    self._give_up_model(pair, member.group, error)
                if is_users:
                    self._assign(member)

    def _bury(self, member: _Member) -> None:
        """Free what a worker that has ended held, and see to the pair it leaves behind."""
        self._members.remove(member)
        self._selector.unregister(member.worker.events)
        member.worker.close()
        self._workplace.release(member.worker)
        pair, log = member.pair, member.pair.log if member.pair else member.log
        if not (member.is_ready or member.is_dismissed) and self._waiting[member.group]:
            # One that never came to work: charged to the pair it was to do, or it would go on.
            pair = self._take_next(member.group)
            self._progress.started(pair.spec)
        if pair is None:
            return
        if self._is_stopping:
            self._close(pair, "interrupted", "interrupted")
        elif pair.is_overdue:
            error = f"took longer than the timeout of {self._timeout:g} s; finished rows are kept"
            self._failed(pair, member.group, error, may_retry=True)
        else:
            self._failed(pair, member.group, member.worker.last_words(log), may_retry=True)

    # Ending.

    def _failed(
        self, pair: _Pair, group: str, error: str, *, may_retry: bool, is_told: bool = False
    ) -> None:
        if may_retry and pair.tries_left > 0 and not self._is_closed:
            logger.warning("%s: %s; trying once more", pair.spec.name, error)
            self._waiting[group].appendleft(pair)
            return
        self._close(pair, "failed", "failed", error, is_told=is_told)
        self._is_closed = self._is_closed or self._fail_fast

    def _give_up_model(self, pair: _Pair, group: str, error: str) -> None:
        """Let what waits for a model that cannot be loaded fail with it, each without a try.

        What has predictions is tried all the same: it may not need the model.
        """
        self._lost_groups.add(group)
        waiting = self._waiting[group]
        lost = [other for other in waiting if not has_output(other.spec)]
        for other in lost:
            waiting.remove(other)
            outcome = TaskOutcome(other.spec, "failed", error, pair.log)
            other.outcome = outcome
            self._progress.closed(outcome, "failed", is_told=True)
        if lost:
            names = ", ".join(other.spec.name for other in lost)
            logger.error(
                "model %r cannot be loaded, so these fail too: %s", pair.spec.model["abbr"], names
            )

    def _close(
        self,
        pair: _Pair,
        status: str,
        how: str,
        error: str | None = None,
        *,
        is_told: bool = False,
    ) -> None:
        seconds = time.monotonic() - pair.started_at
        pair.outcome = TaskOutcome(pair.spec, status, error, pair.log, seconds)
        self._progress.closed(pair.outcome, how, is_told=is_told)

    def _kill_overdue(self) -> None:
        if self._timeout is None:
            return
        now = time.monotonic()
        for member in self._members:
            pair = member.pair
            if pair is not None and now - pair.started_at > self._timeout:
                pair.is_overdue = True
                member.worker.kill()

    def _stop(self) -> None:
        logger.warning("stopping: workers finish the rows in hand; Ctrl-C again kills them")
        self._is_closed = self._is_stopping = True
        for member in self._members:
            self._dismiss(member)

    def _kill_all(self) -> None:
        for member in self._members:
            member.worker.kill()
