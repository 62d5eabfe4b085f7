"""What each kind of write costs, batch by batch: the figures that the model of capacity is made of.

One store on one connection per kind sends batches of exact sizes, nothing else going on. Processor time is read around
each batch, in the database and in this process.
"""

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from bench.store.capacity import LIFE, RENEW, Costs, Disk, StageCost, fitted
from bench.store.postgres.usage import process_seconds, usage
from langlauf.bench.postgres import connected, own_database
from langlauf.bench.rounds import RESULT, OnProgress, claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Claim, Partial
from langlauf.domain.errors import LanglaufError
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore

_SIZES = (1, 10, 100, 500)
_LEAST_TIMES, _MOST_TIMES = 6, 200
_COMMITS = 200
_LEASE_SECONDS = 600.0
_SIZE = "SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class WHERE oid = ANY ($1::text[]::regclass[])"
_LOG = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8"


async def measure_costs(server: str, jobs: int, watch: OnProgress) -> Costs:
    """Send so many jobs through each size of batch."""
    points: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(own_database(server))
        watcher = await stack.enter_async_context(connected(url))
        commit_us = await _commit_us(watcher)
        store = await PostgresStore.open(url, hints=Hints())
        stack.push_async_callback(store.close)
        meter = _Meter(store, watcher)
        await meter.live(10)  # makes connections and plans
        lived, log_before = 0, await watcher.fetchval(_LOG)
        sizes = [size for size in _SIZES if size <= max(jobs, 10)]
        for number, size in enumerate(sizes):
            watch(number, len(sizes))
            times = max(_LEAST_TIMES, min(_MOST_TIMES, jobs // len(sizes) // size))
            await meter.begin()
            for _ in range(times):
                await meter.live(size)
            lived += times * size
            for name, (database, client) in meter.costs(times).items():
                points[name].append((size, database, client))
        watch(len(sizes), len(sizes))
        log = (await watcher.fetchval(_LOG) - log_before) / lived
        disk = await _disk(watcher, lived + 10, log)
        connections = await watcher.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    stages = {
        name: StageCost(
            database=fitted([(size, database) for size, database, _ in found]),
            client=fitted([(size, client) for size, _, client in found]),
        )
        for name, found in points.items()
    }
    return Costs(stages=stages, commit_us=commit_us, disk=disk, connections_per_host=connections)


class _Meter:
    """Lets batches of jobs live and adds up what each kind of write used."""

    def __init__(self, store: PostgresStore, watcher: Any) -> None:
        self._store = store
        self._watcher = watcher
        self._clock = SystemClock()
        self._pids: list[int] = []
        self._used: dict[str, list[float]] = {}

    async def begin(self) -> None:
        """Forgets what was used so far."""
        backends = (await usage(self._watcher)).backends
        if backends is None:
            raise LanglaufError("the processes of the database cannot be seen: it must run on this machine")
        self._pids = list(backends)
        self._used = {name: [0.0, 0.0] for name in (*LIFE, RENEW)}

    def costs(self, times: int) -> dict[str, tuple[float, float]]:
        """Microseconds of a batch of each kind, in the database and here."""
        return {name: (max(0.1, a / times * 1e6), max(0.1, b / times * 1e6)) for name, (a, b) in self._used.items()}

    async def live(self, size: int) -> None:
        """One batch of jobs from submission to completion."""
        new = [new_job(self._clock) for _ in range(size)]
        await self._metered("submit", asyncio.gather(*(self._store.submit(one) for one in new)))
        claims = await self._metered("claim", self._store.claim(claim_request(size, lease_seconds=_LEASE_SECONDS)))
        if len(claims) != size:
            raise LanglaufError(f"a claim of the benchmark got {len(claims)} jobs instead of {size}")
        leases = [claim.lease for claim in claims]
        await self._metered(RENEW, self._store.renew(leases, lease_seconds=_LEASE_SECONDS))
        await self._metered(
            "partial", self._all(claims, lambda: Partial(result_id=new_id(), payload=RESULT, percent=50))
        )
        await self._metered("complete", self._all(claims, lambda: Completed(result_id=new_id(), payload=RESULT)))

    def _all(self, claims: Sequence[Claim], write: Any) -> Awaitable[Any]:
        return asyncio.gather(*(self._store.record(claim.lease, write()) for claim in claims))

    async def _metered(self, name: str, work: Awaitable[Any]) -> Any:
        database = self._database_seconds()
        client = time.process_time()
        found = await work
        client = time.process_time() - client
        used = self._used.setdefault(name, [0.0, 0.0])
        used[0] += self._database_seconds() - database
        used[1] += client
        return found

    def _database_seconds(self) -> float:
        return sum(process_seconds(pid) or 0.0 for pid in self._pids)


async def _commit_us(connection: Any) -> float:
    """Half of the commits of one small row were quicker."""
    await connection.execute("CREATE TABLE public.small (number integer)")
    taken = []
    for number in range(_COMMITS):
        began = time.perf_counter()
        await connection.execute("INSERT INTO public.small VALUES ($1)", number)
        taken.append(time.perf_counter() - began)
    return round(statistics.median(taken) * 1e6, 1)


async def _disk(connection: Any, jobs: int, log: float) -> Disk:
    async def size(*tables: str) -> float:
        return round(float(await connection.fetchval(_SIZE, list(tables))) / jobs, 1)

    return Disk(
        per_job=await size("job_rows", "outbox"),
        per_event=round(await size("event_rows") / len(LIFE), 1),
        per_result=round(await size("result_rows") / 2, 1),
        log_per_job=round(log, 1),
    )
