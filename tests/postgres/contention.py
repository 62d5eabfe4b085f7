"""`python -m tests.postgres.contention`: stores on one database that do everything concurrently, with short leases.

Each store is that of one host. Workers claim, write, renew, end, fall silent and write late; clients submit and cancel;
every store sweeps. Meanwhile a monitor counts running jobs. In the end every job must have the one end that its caller
was answered.
"""

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from langlauf.clock import monotonic, new_id, new_trace_id
from langlauf.domain.attempt import Backoff, Checkpoint, Claim, ClaimRequest, Partial, Progress, Write
from langlauf.domain.job import INLINE_REF, Accepted, JobRecord, NewJob, payload_hash
from langlauf.domain.outcome import Canceled, Completed, Crashed, Failed, Released, Retry
from langlauf.domain.read_models import CancelRequest
from langlauf.domain.state import Status
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.postgres.snapshot import check_database
from tests.support.postgres import fetch
from tests.support.postgres_stores import migrated_database

ORGS = tuple(f"org-{letter}" for letter in "abcdef")
ANALYSES = ("census", "survey", "tally")
STORES = 3
LEASE_SECONDS = 0.6
#: A worker that may not renew in time gives its job up, as real ones do.
SAFETY_SECONDS = 0.25
GRACE_SECONDS = 0.1
BACKOFF = Backoff(base=0.02, cap=0.1)
MAX_RUNNING = 12
LIMITS = {"survey": 4}
MAX_RUNNING_ORG = 5
#: How long jobs may take to end when all else is quiet.
REST_SECONDS = 60.0
#: The time is read after the snapshot: a lease that is live then was live in the snapshot.
_RUNNING = """
WITH run AS MATERIALIZED (
    SELECT lease.org_id, job.analysis, lease.expires_at
    FROM langlauf.leases AS lease JOIN langlauf.jobs AS job USING (org_id, job_id)),
told AS MATERIALIZED (SELECT langlauf.moment(NULL) AS now, (SELECT count(*) FROM run) AS after_that)
SELECT run.org_id, run.analysis FROM run, told WHERE run.expires_at > told.now
"""
_ENDS = """
SELECT job.org_id, job.job_id, job.status, count(event.*) AS ends
FROM langlauf.jobs AS job LEFT JOIN langlauf.job_events AS event
    ON event.org_id = job.org_id AND event.job_id = job.job_id
    AND event.event_type IN ('job.completed', 'job.failed', 'job.canceled')
GROUP BY job.org_id, job.job_id, job.status
"""
_DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
_END_STATES: dict[type, Status] = {Completed: Status.COMPLETED, Failed: Status.FAILED, Canceled: Status.CANCELED}


@dataclass(slots=True)
class Ledger:
    """What callers were answered."""

    accepted: set[str] = field(default_factory=set)
    #: the ends that were accepted, by job
    ends: dict[str, list[Status]] = field(default_factory=dict)
    #: snapshots that were accepted, and those that were refused
    shown: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    deadlocks: int = 0


class Host:
    """One store with its workers and clients."""

    def __init__(self, store: PostgresStore, chance: random.Random, ledger: Ledger, known: list[JobRecord]) -> None:
        self._store = store
        self._chance = chance
        self._ledger = ledger
        self._known = known
        self._name = f"worker-{new_id()[-6:]}"
        self._running: set[asyncio.Task[None]] = set()

    def duties(self) -> list[Callable[[], Awaitable[None]]]:
        """Return the concurrent activities."""
        return [self._submit, self._cancel, self._sweep, self._claim, self._claim]

    async def _submit(self) -> None:
        new = [self._new_job() for _ in range(self._chance.randint(1, 8))]
        for one, answer in zip(new, await asyncio.gather(*map(self._store.submit, new)), strict=True):
            self._ledger.done[type(answer).__name__] += 1
            if isinstance(answer, Accepted):
                self._ledger.accepted.add(one.job.job_id)
                self._known.append(one.job)
        await self._pause(0.03)

    def _new_job(self) -> NewJob:
        analysis = self._chance.choice(ANALYSES)
        payload = f'{{"query":"{self._chance.randint(1, 50)}"}}'
        key = f"key-{self._chance.randint(1, 100)}" if self._chance.random() < 0.2 else None
        job = JobRecord(
            job_id=new_id(),
            org_id=self._chance.choice(ORGS),
            analysis=analysis,
            status=Status.QUEUED,
            priority_class=self._chance.choice(("default", "default", "expedite")),
            request_payload_hash=payload_hash(analysis, payload),
            request_payload_ref=INLINE_REF,
            queued_at=0,
            updated_at=0,
            timeout_seconds=self._chance.choice((0.3, 30.0)),
            max_retries=2,
            trace_id=new_trace_id(),
            request_id=new_id(),
        )
        return NewJob(
            job=job,
            payload=payload,
            idempotency_key=key,
            refuse_duplicate=self._chance.random() < 0.5,
            max_waiting_org=20,
            max_waiting_all=80,
        )

    async def _cancel(self) -> None:
        chosen = [self._chance.choice(self._known) for _ in range(self._chance.randint(1, 5)) if self._known]
        requests = [
            CancelRequest(org_id=job.org_id, job_id=job.job_id, by="user", reason="no more", request_id=new_id())
            for job in chosen
        ]
        views = await asyncio.gather(*map(self._store.cancel, requests))
        self._ledger.done["wishes"] += len(views)
        if None in views:
            self._ledger.wrong.append("a job that was accepted is not known to a cancel")
        await self._pause(0.1)

    async def _sweep(self) -> None:
        swept = await self._store.sweep(grace_seconds=GRACE_SECONDS, backoff=BACKOFF, limit=5)
        self._ledger.done.update(f"swept: {one.outcome}" for one in swept)
        await self._pause(0.1)

    async def _claim(self) -> None:
        request = ClaimRequest(
            worker_id=self._name,
            slots=self._chance.randint(1, 4),
            analyses=ANALYSES,
            lease_seconds=LEASE_SECONDS,
            max_running=MAX_RUNNING,
            limits=LIMITS,
            max_running_org=MAX_RUNNING_ORG,
        )
        claims = await self._store.claim(request)
        if len(claims) > request.slots:
            self._ledger.wrong.append(f"{len(claims)} jobs for {request.slots} slots")
        self._ledger.done["claims"] += len(claims)
        # Jobs claimed together continue together: their writes and ends share batches.
        if claims:
            task = asyncio.create_task(self._work(claims))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        await self._pause(0.03)

    async def at_rest(self) -> None:
        """Wait for claimed jobs."""
        await asyncio.gather(*self._running)

    async def _work(self, claims: Sequence[Claim]) -> None:
        renewed_at = monotonic()
        for _ in range(self._chance.randint(0, 4)):
            if monotonic() > renewed_at + LEASE_SECONDS - SAFETY_SECONDS:
                break
            if self._chance.random() < 0.5:
                asked_at = monotonic()
                leases = [claim.lease for claim in claims]
                self._chance.shuffle(leases)
                beat = self._store.renew(leases, lease_seconds=LEASE_SECONDS)
                await asyncio.gather(beat, *(self._record(claim, self._news()) for claim in claims))
                renewed_at = asked_at
            else:
                await asyncio.gather(*(self._record(claim, self._news()) for claim in claims))
            await self._pause(0.02)
        # Some fall silent, and come back long after their lease expired.
        if self._chance.random() < 0.15:
            await asyncio.sleep(LEASE_SECONDS * self._chance.choice((1.0, 2.0)))
        left = [claim for claim in claims if self._chance.random() < 0.95]
        self._chance.shuffle(left)
        await asyncio.gather(*(self._record(claim, self._news_or_end(claim)) for claim in left))

    def _news_or_end(self, claim: Claim) -> Write:
        return self._news() if self._chance.random() < 0.15 else self._end(claim)

    def _news(self) -> Write:
        luck, percent = self._chance.random(), self._chance.randint(0, 99)
        if luck < 0.4:
            return Progress(percent=percent, step=None)
        if luck < 0.7:
            return Partial(result_id=new_id(), payload="{}", percent=percent)
        return Checkpoint(key=f"chunk-{self._chance.randint(1, 3)}", payload="{}")

    def _end(self, claim: Claim) -> Write:
        luck = self._chance.random()
        if luck < 0.5:
            return Completed(result_id=new_id(), payload="{}")
        if luck < 0.6:
            return Failed(code="internal", message="no", retryable=False)
        if luck < 0.75 and claim.retry_count < claim.max_retries:
            return Retry(code="timeout", message="slow", delay_seconds=self._chance.random() / 10)
        if luck < 0.82:
            return Canceled(by="worker", reason="stopped")
        return Crashed("its process died") if luck < 0.9 else Released()

    async def _record(self, claim: Claim, write: Write) -> None:
        taken = await self._store.record(claim.lease, write)
        self._ledger.done[f"{type(write).__name__} {'taken' if taken else 'refused'}"] += 1
        if isinstance(write, Completed | Partial):
            (self._ledger.shown if taken else self._ledger.refused).add(write.result_id)
        if taken and type(write) in _END_STATES:
            self._ledger.ends.setdefault(claim.lease.job_id, []).append(_END_STATES[type(write)])

    async def finish(self) -> None:
        """Help to end every job."""
        await self._sweep()
        request = ClaimRequest(
            worker_id=self._name, slots=20, analyses=ANALYSES, lease_seconds=LEASE_SECONDS, max_running=20
        )
        claims = await self._store.claim(request)
        await asyncio.gather(
            *(self._record(claim, Completed(result_id=new_id(), payload="{}")) for claim in claims),
        )

    async def _pause(self, most: float) -> None:
        await asyncio.sleep(self._chance.random() * most)


async def _repeat(duty: Callable[[], Awaitable[None]], until: float) -> None:
    while monotonic() < until:
        await duty()


async def _watch(url: str, ledger: Ledger, until: float) -> None:
    """Count running jobs repeatedly: no limit is exceeded at any moment."""
    connection = await asyncpg.connect(url)
    try:
        while monotonic() < until:
            rows = await connection.fetch(_RUNNING)
            counts = Counter({"all": len(rows)})
            for org_id, analysis in rows:
                counts.update((org_id, analysis))
            most = {"all": MAX_RUNNING, **LIMITS, **dict.fromkeys(ORGS, MAX_RUNNING_ORG)}
            ledger.wrong += [f"{counts[one]} jobs of {one} run" for one in most if counts[one] > most[one]]
            ledger.done["looks"] += 1
            ledger.done["looks with all slots taken"] += len(rows) == MAX_RUNNING
            await asyncio.sleep(0.005)
    finally:
        await connection.close()


async def contend(url: str, seconds: float, seed: int) -> Ledger:
    """Run everything concurrently, then let it rest; return what callers were answered."""
    ledger, known = Ledger(), list[JobRecord]()
    async with AsyncExitStack() as stack:
        hosts = []
        for number in range(STORES):
            store = await PostgresStore.open(url, hints=Hints())
            stack.push_async_callback(store.close)
            hosts.append(Host(store, random.Random(seed * 1_000 + number), ledger, known))
        until = monotonic() + seconds
        work: list[Coroutine[Any, Any, None]] = [_repeat(duty, until) for host in hosts for duty in host.duties()]
        await asyncio.gather(_watch(url, ledger, until), *work)
        await asyncio.gather(*(host.at_rest() for host in hosts))
        await _come_to_rest(url, hosts, ledger)
    return ledger


async def _come_to_rest(url: str, hosts: Sequence[Host], ledger: Ledger) -> None:
    connection = await asyncpg.connect(url)
    try:
        until = monotonic() + REST_SECONDS
        while await connection.fetchval("SELECT count(*) FROM langlauf.jobs WHERE finished_at IS NULL"):
            if monotonic() > until:
                ledger.wrong.append("jobs do not come to their end")
                break
            await asyncio.gather(*(host.finish() for host in hosts))
        ledger.deadlocks = await connection.fetchval(_DEADLOCKS)
    finally:
        await connection.close()


def judge(url: str, ledger: Ledger) -> list[str]:
    """Return what differs from the answers, or breaks a rule."""
    wrong = list(ledger.wrong)
    jobs = fetch(url, _ENDS)
    wrong += [f"{row['job_id']} has {row['ends']} ends" for row in jobs if row["ends"] != 1]
    states = {row["job_id"]: row["status"] for row in jobs}
    if states.keys() != ledger.accepted:
        wrong.append(f"{len(ledger.accepted)} jobs were accepted, and there are {len(states)}")
    wrong += [
        f"{job_id} was told to be {' and '.join(told)}, and is {states.get(job_id)}"
        for job_id, told in ledger.ends.items()
        if told != [states.get(job_id)]
    ]
    shown = {row["result_id"] for row in fetch(url, "SELECT result_id FROM langlauf.job_results")}
    if shown != ledger.shown:
        lost, taken = ledger.shown - shown, shown & ledger.refused
        wrong.append(f"{len(lost)} snapshots are lost, {len(taken)} were taken and refused at once")
    wrong += [f"{one.rule}: {one}" for one in check_database(url) if not one.warning]
    return wrong


def main() -> None:
    """Run for a while and print the outcome; exit with 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    with migrated_database() as url:
        started_at = monotonic()
        ledger = asyncio.run(contend(url, given.seconds, given.seed))
        wrong = judge(url, ledger)
        print(f"seed {given.seed}, {monotonic() - started_at:.0f} s, {ledger.deadlocks} deadlocks that nobody heard of")
        for what, times in sorted(ledger.done.items()):
            print(f"{times:8} {what}")
    for words in wrong[:20]:
        print(words)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
