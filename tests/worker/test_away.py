"""A store that is away until the lease seems over: the attempt is lost, and its job is not failed by it."""

import asyncio
from typing import cast

import pytest

from langlauf import Job, Langlauf
from langlauf.clock import steady
from langlauf.domain.attempt import Claim, Lease, Progress
from langlauf.domain.errors import StaleAttempt, StoreUnavailable
from langlauf.settings import load_settings
from langlauf.store.protocol import Store
from langlauf.worker.attempt import RunningAttempt, Stop
from langlauf.worker.executor import Executor
from langlauf.worker.processes.pool import Pool

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
            *(claim, analysis, cast("Store", Silent()), cast("Pool", _Nobody()), cast("Executor", None), settings),
            asked_at=steady() - LEASE_SECONDS,
        )
        with pytest.raises(StaleAttempt):
            await attempt.write(Progress(percent=10))
        attempt.renewed(steady())
        assert not attempt.lease_seems_over
        assert attempt.stop_wish.result() is Stop.LOST
        with pytest.raises(StaleAttempt):
            await attempt.write(Progress(percent=10))

    asyncio.run(main())


class _Nobody:
    """No processes."""

    def allow(self, *_: object) -> None:
        """Nobody is there."""


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
