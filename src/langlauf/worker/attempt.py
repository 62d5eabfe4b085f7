"""One attempt as the worker sees it: its lease, its writes, and the wish that it may stop."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

from langlauf.domain.attempt import Checkpoint, Claim, Partial, Progress
from langlauf.domain.errors import StaleAttempt, StoreUnavailable
from langlauf.store.protocol import Store

T = TypeVar("T")


#: The rest of a lease is for stopping the attempt before somebody else takes the job.
_RELIABLE_SHARE = 0.8
_WRITE_AGAIN_SECONDS = 0.5


class Stop(StrEnum):
    """Why an attempt is to stop before its function returned."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    LOST = "lost"
    RELEASE = "release"


class RunningAttempt:
    """Implements what the handle needs. Its writes are refused once the lease is gone."""

    def __init__(self, claim: Claim, store: Store, *, lease_seconds: float, largest_result: int) -> None:
        self.claim = claim
        self.lease = claim.lease
        self.org_id = claim.lease.org_id
        self.job_id = claim.lease.job_id
        self.number = claim.lease.attempt
        self.largest_result = largest_result
        self.cancel_reason: str | None = None
        self.stop_wish: asyncio.Future[Stop] = asyncio.get_running_loop().create_future()
        self._store = store
        self._lease_seconds = lease_seconds
        self._renewed_at = time.monotonic()

    @property
    def canceled(self) -> bool:
        """Whether somebody asked the job to stop."""
        return self.cancel_reason is not None

    @property
    def lease_seems_over(self) -> bool:
        """Whether the lease must be taken for lost because no renewal came through in time."""
        return self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        """Until when the lease can be relied on: a little less than it lasts, counted from when it was asked for."""
        return self._renewed_at + _RELIABLE_SHARE * self._lease_seconds - time.monotonic()

    def renewed(self, asked_at: float) -> None:
        """A heartbeat that was sent then came through."""
        self._renewed_at = asked_at

    def stop(self, why: Stop) -> None:
        """Asks the attempt to stop; the first reason counts."""
        if not self.stop_wish.done():
            self.stop_wish.set_result(why)

    async def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Returns when the write is on disk; a stale attempt is told so."""
        if not await self._patiently(lambda: self._store.record(self.lease, write)):
            self.stop(Stop.LOST)
            raise StaleAttempt(f"attempt {self.number} of job {self.job_id} no longer holds its lease")

    async def chunk(self, key: str) -> str | None:
        """The stored value of a finished chunk."""
        return await self._patiently(lambda: self._store.tenant(self.org_id).chunk(self.job_id, key))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks the store again while it is away and the lease lives: that is no failure of the analysis."""
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                if self.lease_seems_over:
                    raise
                await asyncio.sleep(_WRITE_AGAIN_SECONDS)
