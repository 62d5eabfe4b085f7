"""The heartbeat of a worker on the Dask scheduler."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, Variable

from langlauf.clock import monotonic, new_id
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.worker.processes.supervisor import SupervisedProcess, Supervisor

#: How often the count is raised and looked at, and how long one that was seen is good for, as shares of a lease. A
#: look may come just before the next count and see one that is old: all together stay under what force allows locally.
EVERY_SHARE = 0.2
_GOOD_SHARE = 0.6


class HeartbeatMonitor:
    """One worker's sign of life, and the processes that may run for as long as it is seen."""

    def __init__(self, read: Callable[[float], Awaitable[int]], seconds: float, supervisor: Supervisor) -> None:
        self._read = read
        self._seconds = seconds
        self._every = EVERY_SHARE * seconds
        self._good = _GOOD_SHARE * seconds
        self._supervisor = supervisor
        #: how often a sign came too late: what ran then was ended, and not by its own doing
        self.lapses = 0
        self._count: int | None = None
        self._until = 0.0
        self._held: set[SupervisedProcess] = set()
        self._watchers = 0
        self._watch: asyncio.Task[None] | None = None

    @property
    def left(self) -> float:
        """Seconds for which the last sign of life is good; 0 or less where it is over."""
        return self._until - monotonic()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks for signs of life meanwhile."""
        self._watchers += 1
        if self._watch is None:
            self._watch = asyncio.create_task(self._look_for_ever(), name="langlauf-lease")
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._watch.cancel()
                self._watch = None

    async def holds(self) -> bool:
        """Whether something new may begin. Where the last sign is not fresh it looks, and waits for one for a lease.

        Nothing computes meanwhile, and a scheduler may be busy when a cluster begins with something.
        """
        if self.left < self._good - self._every:
            await self._look()
        deadline = monotonic() + self._seconds
        while self.left <= 0 and monotonic() < deadline:
            await asyncio.sleep(self._every)
            await self._look()
        return self.left > 0

    @contextmanager
    def holding(self, process: SupervisedProcess) -> Iterator[None]:
        """Lets a process run for as long as there are signs of life."""
        self._held.add(process)
        self._supervisor.allow([process], self.left)
        try:
            yield
        finally:
            self._held.discard(process)

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self._look()

    async def _look(self) -> None:
        asked_at = monotonic()
        try:
            async with asyncio.timeout(2 * self._every):
                count = await self._read(self._every)
        except Exception:  # noqa: BLE001 - whatever keeps it from being seen, it was not seen
            return
        if count != self._count:
            self.lapses += self.left <= 0
            self._count, self._until = count, asked_at + self._good
            self._supervisor.allow(list(self._held), self.left)


class HeartbeatSender:
    """Counts while the event loop runs: a worker that is paused, blocked or gone cannot."""

    def __init__(self, client: Client, lease_seconds: float) -> None:
        self.name = f"langlauf-{new_id()}"
        self._every = EVERY_SHARE * lease_seconds
        self._client = client
        self._variable = Variable(self.name, client=client)
        self._counts = itertools.count(1)
        self._task: asyncio.Task[None] | None = None

    async def start(self, patience: float) -> None:
        """Returns when the first sign is there, and goes on giving them."""
        await self._count(patience)
        self._task = asyncio.create_task(self._count_for_ever(), name="langlauf-dask-lease")

    async def stop(self) -> None:
        """Gives no more signs, and takes the last one away."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._variable.delete()

    async def _count_for_ever(self) -> None:
        told = False
        while True:
            await asyncio.sleep(self._every)
            if str(self._client.status) == "closed":  # it gave up; another one is opened when there is work
                return
            try:
                await self._count(2 * self._every)
                told = False
            except Exception as error:  # noqa: BLE001 - the next one may come through
                if not told:
                    log_event(
                        LogEvent.EXECUTOR_LOST, logging.WARNING, reason=f"the sign of life was not taken: {error!r}"
                    )
                told = True

    async def _count(self, patience: float) -> None:
        async with asyncio.timeout(patience):
            answer: Any = self._variable.set(next(self._counts), timeout=patience)
            await answer
