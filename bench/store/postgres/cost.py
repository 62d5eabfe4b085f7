"""What the store itself takes for a job on PostgreSQL: processor time, rows written, bytes kept, and updates in place.

Each round has its own database. A connection reports the counters of its tables when it ends, so the store is closed
before they are read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bench.store.cost import BATCH, LEASE_SECONDS, PAYLOAD_BYTES, RESULT, batches_of, claimed, live, warm_up
from bench.store.figures import StoreCost
from bench.store.postgres.usage import cluster_seconds, process_seconds, usage
from langlauf.bench.postgres import connected, own_database
from langlauf.bench.rounds import new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Claim, Partial, Progress
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.sql import load_queries

_SQL = load_queries("bench.store.postgres", "cost.sql")
#: Jobs that run while updates in place are counted, in batches, and how often each of them is written to.
_RUNNING, _TIMES = 10, 5


async def measure_cost_on_postgres(server: str, jobs: int) -> StoreCost:
    """Return one round in a database of its own, and in it the updates of jobs that run."""
    async with own_database(server) as url, connected(url) as watcher:
        return await _round(url, watcher, batches_of(jobs))


async def _round(url: str, watcher: Any, batches: int) -> StoreCost:
    empty, rows = await watcher.fetchval(_SQL["bytes"]), await watcher.fetchval(_SQL["rows_written"])
    store = await PostgresStore.open(url, hints=Hints())
    try:
        lived = await warm_up(store) + batches * BATCH
        backends = (await usage(watcher)).backends
        all_before = cluster_seconds(list(backends)) if backends else None
        pids = list(backends or {})
        stages = await live(store, batches, lambda: sum(process_seconds(pid) or 0.0 for pid in pids))
        all_used = None if all_before is None else (cluster_seconds(pids) or all_before) - all_before
    finally:
        await _closed(store, watcher)
    spent = sum(stages.values()) if backends is not None else None
    row_writes = await watcher.fetchval(_SQL["rows_written"]) - rows
    await watcher.execute("VACUUM")
    kept = await watcher.fetchval(_SQL["bytes"]) - empty
    await watcher.execute("VACUUM FULL")
    packed = await watcher.fetchval(_SQL["bytes"]) - empty
    return StoreCost(
        batch=BATCH,
        stages_us=stages if spent is not None else {},
        background_us=None
        if all_used is None or spent is None
        else max(0.0, all_used / (batches * BATCH) * 1e6 - spent),
        row_writes=row_writes / lived,
        bytes_per_job=kept / lived,
        packed_bytes_per_job=packed / lived,
        hot_shares=await _hot_shares(url, watcher),
    )


async def _closed(store: PostgresStore, watcher: Any) -> None:
    """The store is closed, and its connections have reported their counters."""
    await store.close()
    while await watcher.fetchval(_SQL["others"]):
        await watcher.execute("SELECT pg_sleep(0.02)")


async def _hot_shares(url: str, watcher: Any) -> dict[str, float]:
    """Jobs that run are renewed, report progress and show partials, kind after kind."""
    store = await PostgresStore.open(url, hints=Hints())
    clock = SystemClock()
    running: list[list[Claim]] = []
    for _ in range(_RUNNING):
        await asyncio.gather(*(store.submit(new_job(clock, payload_bytes=PAYLOAD_BYTES)) for _ in range(BATCH)))
        running.append(await claimed(store))
    await _closed(store, watcher)

    async def share(times: range, write: Callable[[PostgresStore, Sequence[Claim], int], Awaitable[Any]]) -> float:
        before = await watcher.fetchrow(_SQL["updates"])
        mine = await PostgresStore.open(url, hints=Hints())
        for number in times:
            for claims in running:
                await write(mine, claims, number)
        await _closed(mine, watcher)
        after = await watcher.fetchrow(_SQL["updates"])
        return float((after["hot"] - before["hot"]) / max(1, after["updates"] - before["updates"]))

    return {
        "renewals": await share(range(_TIMES), _renew),
        "progress": await share(range(_TIMES), _progress),
        "first partials": await share(range(1), _partial),
        "later partials": await share(range(1, _TIMES), _partial),
    }


async def _renew(store: PostgresStore, claims: Sequence[Claim], _: int) -> None:
    await store.renew([claim.lease for claim in claims], lease_seconds=LEASE_SECONDS)


async def _progress(store: PostgresStore, claims: Sequence[Claim], number: int) -> None:
    await asyncio.gather(*(store.record(claim.lease, Progress(percent=number + 1, step=None)) for claim in claims))


async def _partial(store: PostgresStore, claims: Sequence[Claim], number: int) -> None:
    shown = (Partial(result_id=new_id(), payload=RESULT, percent=50 + number) for _ in claims)
    await asyncio.gather(*(store.record(claim.lease, one) for claim, one in zip(claims, shown, strict=True)))
