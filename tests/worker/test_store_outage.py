"""A store that is away: an attempt whose lease seems over is lost, its job is not failed, and the worker asks again."""

import asyncio
from functools import partial
from typing import cast

import pytest

from langlauf import Job, Langlauf
from langlauf.clock import Clock, monotonic
from langlauf.domain.attempt import Claim, ClaimRequest, Lease, Progress
from langlauf.domain.errors import StaleAttempt, StoreUnavailable
from langlauf.hints import Hints
from langlauf.settings import load_settings
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.worker.attempt import RunningAttempt, StopReason
from langlauf.worker.claimer import Claimer
from langlauf.worker.parallel_map import Executor
from langlauf.worker.processes.pool import ProcessPool
from langlauf.worker.worker import Worker

LEASE_SECONDS = 0.6


def test_an_attempt_that_is_given_up_stays_given_up() -> None:
    """It is stale from then on, whatever heartbeat comes through later."""
    app = Langlauf()

    @app.analysis
    async def survey(job: Job) -> None:
        pass

    class Silent:
        async def record(self, *_: object) -> bool:
            raise StoreUnavailable("away")

    async def main() -> None:
        settings = load_settings({}, lease_seconds=LEASE_SECONDS)
        analysis = app.registry.get("survey")
        assert analysis is not None
        claim = _claim()
        attempt = RunningAttempt(
            *(
                claim,
                analysis,
                cast("Store", Silent()),
                cast("ProcessPool", _NoPool()),
                cast("Executor", None),
                settings,
            ),
            asked_at=monotonic() - LEASE_SECONDS,
        )
        with pytest.raises(StaleAttempt):
            await attempt.write(Progress(percent=10))
        attempt.renewed(monotonic())
        assert not attempt.lease_seems_over
        assert attempt.stop_reason is StopReason.LOST
        with pytest.raises(StaleAttempt):
            await attempt.write(Progress(percent=10))

    asyncio.run(main())


def test_a_failed_claim_is_retried_soon() -> None:
    """Long before a worker polls, nothing else looks for work."""
    app = Langlauf()

    @app.analysis
    async def survey(job: Job) -> None:
        pass

    class Away(SqliteStore):
        """Refuses the first claim."""

        def __init__(self, path: str, *, clock: Clock, hints: Hints) -> None:
            super().__init__(path, clock=clock, hints=hints)
            self.asked = 0
            self.asked_again = asyncio.Event()

        async def claim(self, request: ClaimRequest) -> list[Claim]:
            self.asked += 1
            if self.asked == 1:
                raise StoreUnavailable("away")
            self.asked_again.set()
            return await super().claim(request)

    async def main() -> None:
        hints = Hints()
        store = await Away.open(":memory:", hints=hints)
        settings = load_settings({}, poll_seconds=0.1, watchdog=False)
        worker = Worker(
            store, app.registry, settings, hints, store.clock, partial(Claimer, store, hints, settings.poll_seconds)
        )
        await worker.start()
        async with asyncio.timeout(60):
            await store.asked_again.wait()
        await worker.stop()
        await store.close()

    asyncio.run(main())


class _NoPool:
    """No processes."""

    def allow(self, *_: object) -> None:
        """Do nothing."""


def _claim() -> Claim:
    return Claim(
        lease=Lease("org-a", "job", 1),
        analysis="survey",
        payload="{}",
        started_at=0,
        expires_at=0,
        timeout_seconds=60.0,
        progress_percent=0,
        retry_count=0,
        max_retries=3,
        trace_id="0" * 32,
        request_id="r",
    )
