"""Lease expiry against completion, on the store itself.

One process completes at about the expiry of its lease, another one sweeps all the time.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from langlauf.clock import SystemClock, new_id, new_trace_id
from langlauf.domain.attempt import Claim, ClaimRequest
from langlauf.domain.job import INLINE_REF, JobRecord, NewJob, payload_hash
from langlauf.domain.outcome import Completed
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.store.sqlite.driver import SqliteStore
from tests.faults.fleet import verified
from tests.faults.plan import Plan
from tests.faults.races import RACES, Aim
from tests.faults.report import Figure, all_of, at_least, measured, never
from tests.faults.verdicts import FINAL_EVENTS
from tests.support.server import ROOT, environment

LEASE_SECONDS = 0.05
_LONG_LEASE = 60.0
_AT_ONCE = 20
_ORG, _ANALYSIS, _PAYLOAD = "racing-org", "race", "{}"
_NO_LIMIT = 1_000_000
_MICROSECONDS = 1_000_000
_TIMEOUT = 60.0


class Race(NamedTuple):
    """One attempt that was completed at about the expiry of its lease."""

    job_id: str
    #: the store's answer
    accepted: bool
    #: whether the job matched that answer
    true: bool


class Ends(NamedTuple):
    """All jobs after the last race."""

    reverted: int
    twice: int
    unended: int


async def run(plan: Plan) -> list[Figure]:
    """Claim with a very short lease, complete at about its expiry, and let late ones race again."""
    path = plan.folder / "expiry" / "store.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    store = await SqliteStore.open(str(path), clock=SystemClock(), hints=Hints())
    try:
        track = _Track(store, plan)
        async with _sweeping(path) as swept:
            races = await track.race(plan.times(RACES))
            await track.finish()
        ends = await track.look_again()
    finally:
        await store.close()
    won = sum(race.accepted for race in races)
    return [
        at_least("races", len(races), plan.times(RACES)),
        at_least("won by completion", won, 1),
        at_least("won by the end of the lease", len(races) - won, 1),
        measured("jobs", len(track.jobs)),
        measured("attempts that the sweep took back", swept[0]),
        never("answers of the store that were not so", sum(not race.true for race in races), len(races)),
        never("final states reverted", ends.reverted, len(track.jobs)),
        never("jobs ended twice", ends.twice, len(track.jobs)),
        never("jobs without an end", ends.unended, len(track.jobs)),
        all_of("stores that verify calls sound", int(await verified(path)), 1),
    ]


@asynccontextmanager
async def _sweeping(path: Path) -> AsyncIterator[list[int]]:
    """Run the sweeping process; return how many attempts it ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.sweeper", str(path)),
        cwd=ROOT,
        env=environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    swept: list[int] = []
    try:
        assert await process.stdout.readline(), "the sweeper did not start"
        yield swept
        told_at_last, _ = await process.communicate(b"")  # closes its input
        swept.append(int(told_at_last))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class _Track:
    """The process that claims and completes."""

    def __init__(self, store: SqliteStore, plan: Plan) -> None:
        self.store = store
        self.jobs: dict[str, JobRecord | None] = {}
        self._plan = plan
        self._clock = SystemClock()
        self._aim = Aim(plan.chance("expiry"), at=LEASE_SECONDS, step=0.0005, spread=0.003)

    async def race(self, total: int) -> list[Race]:
        """Race so many attempts, some at once; a lost job comes back by itself."""
        races: list[Race] = []
        while len(races) < total:
            missing = 2 * _AT_ONCE - sum(end is None for end in self.jobs.values())
            await asyncio.gather(*(self._submit() for _ in range(missing)))
            claims = await self._claim(LEASE_SECONDS)
            races += await asyncio.gather(*map(self._one, claims))
            self._plan.watch(min(len(races), total), total)
        return races

    async def finish(self) -> None:
        """End the remaining jobs under long leases."""
        async with asyncio.timeout(_TIMEOUT):
            while open_jobs := [job_id for job_id, end in self.jobs.items() if end is None]:
                for claim in await self._claim(_LONG_LEASE):
                    assert await self.store.record(claim.lease, _completed())
                for job_id in open_jobs:
                    await self._note_end(job_id)

    async def look_again(self) -> Ends:
        """Compare every job with what it was at its end."""
        reverted = twice = unended = 0
        for job_id, end in self.jobs.items():
            view = await self.store.tenant(_ORG).job(job_id)
            events = await self.store.tenant(_ORG).events(job_id, after=0, limit=_NO_LIMIT)
            finals = sum(event.event_type in FINAL_EVENTS for event in events)
            reverted += view is None or view.job != end
            twice += finals > 1 or events[-1].event_type not in FINAL_EVENTS
            unended += finals == 0
        return Ends(reverted, twice, unended)

    async def _one(self, claim: Claim) -> Race:
        meet_at = claim.started_at + self._aim.draw() * _MICROSECONDS
        await asyncio.sleep((meet_at - self._clock.now()) / _MICROSECONDS)  # the moment of the end is the point
        end = _completed()
        accepted = bool(await self.store.record(claim.lease, end))
        self._aim.move(later=accepted)
        job = await self._note_end(claim.lease.job_id)
        stands = (job.status, job.result_id, job.attempt) == (Status.COMPLETED, end.result_id, claim.lease.attempt)
        return Race(claim.lease.job_id, accepted, true=stands == accepted)

    async def _note_end(self, job_id: str) -> JobRecord:
        """Return the job; its first ended state is recorded."""
        view = await self.store.tenant(_ORG).job(job_id)
        assert view is not None
        if view.job.terminal and self.jobs[job_id] is None:
            self.jobs[job_id] = view.job
        return view.job

    async def _claim(self, lease_seconds: float) -> list[Claim]:
        request = ClaimRequest(
            worker_id="racer",
            slots=_AT_ONCE,
            analyses=(_ANALYSIS,),
            lease_seconds=lease_seconds,
            max_running=_NO_LIMIT,
        )
        return await self.store.claim(request)

    async def _submit(self) -> None:
        new = _new_job(self._clock.now())
        await self.store.submit(new)
        self.jobs[new.job.job_id] = None


def _completed() -> Completed:
    return Completed(result_id=new_id(), payload="true")


def _new_job(now: int) -> NewJob:
    job = JobRecord(
        job_id=new_id(),
        org_id=_ORG,
        analysis=_ANALYSIS,
        status=Status.QUEUED,
        priority_class="default",
        request_payload_hash=payload_hash(_ANALYSIS, _PAYLOAD),
        request_payload_ref=INLINE_REF,
        queued_at=now,
        updated_at=now,
        timeout_seconds=_LONG_LEASE,
        max_retries=0,
        trace_id=new_trace_id(),
        request_id=new_id(),
    )
    return NewJob(
        job=job, payload=_PAYLOAD, refuse_duplicate=False, max_waiting_org=_NO_LIMIT, max_waiting_all=_NO_LIMIT
    )
