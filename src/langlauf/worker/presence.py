"""A worker tells the store that it is there: every few seconds, when it begins to stop, and when it goes.

Nothing depends on it but what people see. A store that is away costs a report; leases are renewed elsewhere.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable

from langlauf.domain.errors import StoreUnwell
from langlauf.domain.instant import Instant
from langlauf.domain.workers import WorkerReport
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.version import VERSION
from langlauf.worker.attempt_store import Reports

#: How long a stop waits for the store to take the last report.
_LEAVE_SECONDS = 5.0


class Presence:
    """Reports until it is stopped, one report after the other, so that the last word is the last."""

    def __init__(
        self,
        store: Reports,
        worker_id: str,
        *,
        analyses: tuple[str, ...],
        slots: int,
        every: float,
        busy: Callable[[], int],
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._analyses = analyses
        self._slots = slots
        self._every = every
        self._busy = busy
        self._started_at: Instant = 0
        self._stopping = False
        self._gone = False
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, now: Instant) -> asyncio.Task[None]:
        """Begins to report."""
        self._started_at = now
        self._task = asyncio.create_task(self._run(), name="langlauf-presence")
        return self._task

    def stopping(self) -> None:
        """From now on it takes nothing new; the store is told at once."""
        self._stopping = True
        self._news.set()

    async def leave(self) -> None:
        """Tells the store that it is gone. A store that is away does not hold up the stop."""
        self._gone = True
        self._news.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_LEAVE_SECONDS)
            self._task.cancel()

    async def _run(self) -> None:
        while not self._gone:
            await self._tell(self._store.note(self._report()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._news.wait()
            self._news.clear()
        await self._tell(self._store.forget(self._worker_id))

    async def _tell(self, telling: Awaitable[None]) -> None:
        try:
            await telling
        except StoreUnwell:
            return  # logged once, by the health of the store
        except Exception as error:  # noqa: BLE001 - the next report tries again
            log_event(LogEvent.UPKEEP_FAILED, logging.WARNING, duty="presence", reason=str(error))

    def _report(self) -> WorkerReport:
        return WorkerReport(
            worker_id=self._worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=VERSION,
            analyses=self._analyses,
            slots=self._slots,
            busy=self._busy(),
            every_seconds=self._every,
            started_at=self._started_at,
            stopping=self._stopping,
        )
