"""Coroutines started from one thread and run on the event loop of another, several at once."""

from __future__ import annotations

import asyncio
import functools
import queue
from collections.abc import Coroutine, Mapping
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Tasks(Generic[Result]):
    """Starts coroutines by number, and gives back those that have ended.

    Waking the other thread costs more than the call does, so both ways go in batches.

    Args:
        loop: An event loop that runs in another thread.

    Attributes:
        running: How many have been started and not been given back.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.running = 0
        self._loop = loop
        self._tasks: set[asyncio.Task[Result]] = set()
        self._ended: queue.SimpleQueue[tuple[int, asyncio.Task[Result]]] = queue.SimpleQueue()

    def start(self, coroutines: Mapping[int, Coroutine[object, object, Result]]) -> None:
        """Start coroutines; returns at once."""
        if coroutines:
            self.running += len(coroutines)
            self._loop.call_soon_threadsafe(self._spawn, coroutines)

    def wait(self) -> list[tuple[int, asyncio.Task[Result]]]:
        """Return those that have ended, at least one; none only when none is running."""
        if not self.running:
            return []
        ended = [self._ended.get()]
        while not self._ended.empty():
            ended.append(self._ended.get())
        self.running -= len(ended)
        return ended

    async def cancel(self) -> None:
        """End all that are running. To be called on the loop."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, coroutines: Mapping[int, Coroutine[object, object, Result]]) -> None:
        for number, coroutine in coroutines.items():
            task = self._loop.create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(functools.partial(self._end, number))

    def _end(self, number: int, task: asyncio.Task[Result]) -> None:
        self._tasks.discard(task)
        self._ended.put((number, task))
