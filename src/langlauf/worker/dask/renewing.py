"""A worker's sign of life on the scheduler: a count that goes up. Dask workers look at it (`lease`)."""

import asyncio
import itertools
import logging
from typing import Any

from distributed import Client, Variable

from langlauf.clock import new_id
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.worker.dask.heartbeat import EVERY_SHARE


class Renewing:
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
