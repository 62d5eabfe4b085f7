"""The heartbeat of a worker on the Dask scheduler: sent by the worker, monitored by Dask workers.

Dask reports when a task is no longer wanted, but not when the worker that wants it is paused or cut off. So the worker
increments a variable on the scheduler, Dask workers read it, and their supervisor ends the processes of a count that
stands still, even where the Dask worker itself is blocked or cannot reach the scheduler.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from distributed import Client, Variable

from langlauf.background import BackgroundLoop
from langlauf.clock import monotonic, new_id
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.worker.processes.supervisor import SupervisedProcess, Supervisor

#: As shares of a lease: the interval at which the count is raised and read, and how long a new count is valid. A read
#: may come just before the next count and return an old one: the sum stays below the share at which a local attempt is
#: ended by force.
EVERY_SHARE = 0.2
_VALID_SHARE = 0.6


class HeartbeatMonitor:
    """The heartbeat of one worker, and the processes that may run while it is seen."""

    def __init__(self, read: Callable[[float], Awaitable[int]], seconds: float, supervisor: Supervisor) -> None:
        """`read` returns the count within a timeout; `seconds` is the length of a lease."""
        self._read = read
        self._seconds = seconds
        self._every = EVERY_SHARE * seconds
        self._valid = _VALID_SHARE * seconds
        self._supervisor = supervisor
        #: how often a heartbeat came too late: processes were ended then, through no fault of their own
        self.lapses = 0
        self._count: int | None = None
        self._until = 0.0
        self._held: set[SupervisedProcess] = set()
        self._watchers = 0
        self._loop: BackgroundLoop | None = None

    @property
    def left(self) -> float:
        """Seconds for which the last heartbeat is valid; 0 or less once it has expired."""
        return self._until - monotonic()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Read the heartbeat in the background meanwhile."""
        self._watchers += 1
        if self._loop is None:
            self._loop = BackgroundLoop("langlauf-heartbeat-monitor", self._wait_and_check)
            await self._loop.start()
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                loop, self._loop = self._loop, None
                await loop.stop()

    async def is_alive(self) -> bool:
        """Whether a new process may start. Without a recent heartbeat, waits up to a lease for one.

        Nothing computes meanwhile, and a scheduler may be busy when a cluster starts a large job.
        """
        if self.left < self._valid - self._every:
            await self._check()
        deadline = monotonic() + self._seconds
        while self.left <= 0 and monotonic() < deadline:
            await self._wait_and_check()
        return self.left > 0

    @contextmanager
    def bound(self, process: SupervisedProcess) -> Iterator[None]:
        """Let a process run as long as there are heartbeats."""
        self._held.add(process)
        self._supervisor.allow([process], self.left)
        try:
            yield
        finally:
            self._held.discard(process)

    async def _wait_and_check(self) -> None:
        await asyncio.sleep(self._every)
        await self._check()

    async def _check(self) -> None:
        asked_at = monotonic()
        try:
            async with asyncio.timeout(2 * self._every):
                count = await self._read(self._every)
        except Exception:  # noqa: BLE001 - a heartbeat that cannot be read is a missing one
            return
        if count != self._count:
            self.lapses += self.left <= 0
            self._count, self._until = count, asked_at + self._valid
            self._supervisor.allow(list(self._held), self.left)


class HeartbeatSender:
    """Raises the count while the event loop runs: a worker that is paused, blocked or gone does not."""

    def __init__(self, client: Client, lease_seconds: float) -> None:
        self.name = f"langlauf-{new_id()}"
        self._every = EVERY_SHARE * lease_seconds
        self._client = client
        self._variable = Variable(self.name, client=client)
        self._counts = itertools.count(1)
        self._loop = BackgroundLoop("langlauf-dask-heartbeat", self._wait_and_beat, on_error=self._failed)
        self._started = self._failing = False

    async def start(self, timeout: float) -> None:  # noqa: ASYNC109 - Dask takes it as a value, too
        """Send the first heartbeat, and repeat it in the background."""
        await self._beat(timeout)
        await self._loop.start()
        self._started = True

    async def stop(self) -> None:
        """Send no more heartbeats, and delete the variable."""
        if self._started:
            await self._loop.stop()
            self._variable.delete()

    async def _wait_and_beat(self) -> None:
        await asyncio.sleep(self._every)
        if str(self._client.status) == "closed":  # Dask gave the client up; a new one is opened for the next chunk
            self._loop.finish()
            return
        await self._beat(2 * self._every)
        self._failing = False

    async def _failed(self, error: Exception) -> None:
        if not self._failing:
            log_event(LogEvent.EXECUTOR_LOST, logging.WARNING, reason=f"the heartbeat could not be written: {error!r}")
        self._failing = True

    async def _beat(self, timeout: float) -> None:  # noqa: ASYNC109 - Dask takes it as a value, too
        async with asyncio.timeout(timeout):
            written: Any = self._variable.set(next(self._counts), timeout=timeout)
            await written
