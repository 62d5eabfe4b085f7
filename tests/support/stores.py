"""Stores for tests: a clock that stands until it is moved, and jobs brought into any state by legal steps."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import apsw

from langlauf.clock import new_id, new_trace_id
from langlauf.domain.attempt import Backoff, Checkpoint, Claim, ClaimRequest, Partial, Progress
from langlauf.domain.delivery import Subscription
from langlauf.domain.instant import Instant, after
from langlauf.domain.job import INLINE_REF, Accepted, JobRecord, NewJob, payload_hash
from langlauf.domain.outcome import Canceled, Completed, Failed, Released, Retry
from langlauf.domain.read_models import CancelRequest
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.store.protocol import Store
from langlauf.store.sqlite.driver import SqliteStore
from tests.support.sqlite_edits import make_writable

T = TypeVar("T")
DAY = 86_400.0
START: Instant = 1_770_000_000_000_000
LEASE_SECONDS = 15.0


class SetClock:
    """A clock that shows what it was set to."""

    def __init__(self, now: Instant = START) -> None:
        self.time = now

    def now(self) -> Instant:
        """The time it was set to."""
        return self.time

    def pass_(self, seconds: float) -> None:
        """Moves it on."""
        self.time = after(self.time, seconds)


@asynccontextmanager
async def opened(path: Path | str, clock: SetClock) -> AsyncIterator[SqliteStore]:
    """A store that is closed at the end, whatever happened."""
    store = await SqliteStore.open(str(path), clock=clock, hints=Hints())
    try:
        yield store
    finally:
        await store.close()


def with_store(path: Path | str, clock: SetClock, use: Callable[[SqliteStore], Awaitable[T]]) -> T:
    """Opens a store, uses it and closes it."""

    async def run() -> T:
        async with opened(path, clock) as store:
            return await use(store)

    return asyncio.run(run())


def query(path: Path | str, sql: str, *values: object) -> list[tuple[object, ...]]:
    """Looks into the file past the store."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(60_000)  # a server may be writing
    try:
        if re.search("UPDATE|DELETE", sql):
            make_writable(connection)
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


class JobFactory:
    """Makes jobs of one store. Each has a lane of its own, so that a claim gets the job it is meant for."""

    def __init__(self, store: Store, clock: SetClock, org_id: str = "org-a") -> None:
        self.store = store
        self.clock = clock
        self.org_id = org_id

    async def queued(
        self, *, key: str | None = None, query: str = "Bern", subscriptions: tuple[Subscription, ...] = ()
    ) -> JobRecord:
        """A job that waits."""
        job_id = new_id()
        analysis = f"survey-{job_id[-12:]}"
        payload = f'{{"intelligence_mode":"basic","query":"{query}"}}'
        now = self.clock.now()
        job = JobRecord(
            job_id=job_id,
            org_id=self.org_id,
            analysis=analysis,
            status=Status.QUEUED,
            priority_class="default",
            request_payload_hash=payload_hash(analysis, payload),
            request_payload_ref=INLINE_REF,
            queued_at=now,
            updated_at=now,
            timeout_seconds=1800.0,
            max_retries=3,
            trace_id=new_trace_id(),
            request_id=new_id(),
        )
        new = NewJob(
            job=job,
            payload=payload,
            idempotency_key=key,
            max_waiting_org=1_000,
            max_waiting_all=1_000,
            subscriptions=subscriptions,
        )
        submitted = await self.store.submit(new)
        assert isinstance(submitted, Accepted)
        self.clock.pass_(0.1)
        return submitted.job

    async def claim(self, job: JobRecord) -> Claim:
        """Starts an attempt of this job."""
        request = ClaimRequest(
            worker_id="worker-1", slots=1, analyses=(job.analysis,), lease_seconds=LEASE_SECONDS, max_running=1_000
        )
        [claim] = await self.store.claim(request)
        self.clock.pass_(0.1)
        return claim

    async def running(self, *, key: str | None = None) -> Claim:
        """A job that runs and has told how far it is."""
        return await self._started(await self.queued(key=key))

    async def _started(self, job: JobRecord) -> Claim:
        claim = await self.claim(job)
        assert await self.store.record(claim.lease, Progress(percent=10, step="Reading"))
        self.clock.pass_(0.1)
        return claim

    async def partial(self, snapshots: int = 2) -> Claim:
        """A job that runs and has shown snapshots and kept a chunk."""
        claim = await self.running()
        for number in range(1, snapshots + 1):
            await self._partial(claim, number)
        assert await self.store.record(claim.lease, Checkpoint(key="year-1", payload='{"sum":1}'))
        return claim

    async def _partial(self, claim: Claim, number: int) -> None:
        write = Partial(
            result_id=new_id(),
            payload=f'{{"found":{number}}}',
            summary=f'{{"found":{number}}}',
            percent=10 + number * 10,
            views=f'[{{"kind":"markdown","text":"{number}"}}]',
        )
        assert await self.store.record(claim.lease, write)
        self.clock.pass_(0.1)

    async def completed(self, snapshots: int = 2, *, key: str | None = None) -> str:
        """A job with partial snapshots and a final one."""
        claim = await self.running(key=key)
        await self.finish(claim, snapshots)
        return claim.lease.job_id

    async def finish(self, claim: Claim, snapshots: int = 0) -> None:
        """Shows some more snapshots and completes the job."""
        for number in range(1, snapshots + 1):
            await self._partial(claim, number)
        write = Completed(result_id=new_id(), payload='{"found":"all"}', summary='{"found":"all"}')
        assert await self.store.record(claim.lease, write)
        self.clock.pass_(0.1)

    async def failed(self, snapshots: int = 0) -> str:
        """A job that ended with an error, after some snapshots."""
        claim = await self.partial(snapshots) if snapshots else await self.running()
        write = Failed(
            code="validation_error",
            message="No such place.",
            retryable=False,
            hint="check_input_and_retry",
            meta={"at": 1},
        )
        assert await self.store.record(claim.lease, write)
        self.clock.pass_(0.1)
        return claim.lease.job_id

    async def canceled(self) -> str:
        """A job that was canceled while it waited."""
        job = await self.queued()
        await self._ask_to_stop(job.job_id)
        return job.job_id

    async def stopped(self) -> str:
        """A job that was canceled while it ran, and whose worker obeyed."""
        claim = await self.partial(1)
        await self._ask_to_stop(claim.lease.job_id)
        assert await self.store.record(claim.lease, Canceled(by="worker", reason="asked to"))
        self.clock.pass_(0.1)
        return claim.lease.job_id

    async def _ask_to_stop(self, job_id: str) -> None:
        request = CancelRequest(org_id=self.org_id, job_id=job_id, by="user", reason="not needed", request_id=new_id())
        assert await self.store.cancel(request) is not None
        self.clock.pass_(0.1)

    async def retrying(self) -> str:
        """A job that waits for its next attempt after a failure."""
        claim = await self.partial(1)
        write = Retry(code="network_error", message="Connection refused.", delay_seconds=30.0)
        assert await self.store.record(claim.lease, write)
        self.clock.pass_(0.1)
        return claim.lease.job_id

    async def released(self) -> str:
        """A job that a worker gave back at shutdown."""
        claim = await self.running()
        assert await self.store.record(claim.lease, Released())
        self.clock.pass_(0.1)
        return claim.lease.job_id

    async def recovered(self) -> str:
        """A job that lost its worker, was claimed again and completed."""
        job = await self.queued()
        claim = await self._started(job)
        self.clock.pass_(LEASE_SECONDS + 1)
        job_ids = [one.job_id for one in await self.store.sweep(grace_seconds=5.0, backoff=Backoff())]
        assert claim.lease.job_id in job_ids
        again = await self.claim(job)
        assert await self.store.record(again.lease, Completed(result_id=new_id(), payload='{"found":"all"}'))
        self.clock.pass_(0.1)
        return claim.lease.job_id

    async def _job(self, job_id: str) -> JobRecord:
        view = await self.store.tenant(self.org_id).job(job_id)
        assert view is not None
        return view.job

    async def at_rest(self) -> dict[str, str]:
        """Jobs in every state that no worker holds; their ids by what they are."""
        recovered = await self.recovered()
        return {
            "recovered": recovered,
            "plain": await self.completed(0),
            "completed": await self.completed(2, key=f"key-{new_id()}"),
            "failed": await self.failed(),
            "failed_late": await self.failed(2),
            "canceled": await self.canceled(),
            "stopped": await self.stopped(),
            "retrying": await self.retrying(),
            "released": await self.released(),
            "queued": (await self.queued(key=f"key-{new_id()}")).job_id,
        }

    async def one_of_each(self) -> dict[str, str]:
        """A job in every state, and in each the ways to get there; their ids by what they are."""
        at_rest = await self.at_rest()
        running, partial = await self.running(), await self.partial()
        return at_rest | {"running": running.lease.job_id, "partial": partial.lease.job_id}


Scene = Callable[[SqliteStore, JobFactory, SetClock], Awaitable[None]]


def play(path: Path | str, scene: Scene) -> None:
    """Runs a scene on a fresh store."""
    clock = SetClock()
    with_store(path, clock, lambda store: scene(store, JobFactory(store, clock), clock))
