"""What is left in an index of jobs that were taken, until it is vacuumed: whether a claim has to walk over it.

A queue that takes the first entry of an index walks over all that were taken before, as long as they cannot be removed:
while nothing is vacuumed, or while a long transaction may still look at them. A lane knows the ticket of its first job
and starts there. Both are measured before and after many jobs were taken.
"""

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from typing import Any

from langlauf.bench.figures import Compared, Watch
from langlauf.bench.postgres.fill import Filling, org_name
from langlauf.bench.postgres.server import connected
from langlauf.bench.postgres.turns import LEASE_SECONDS, Site
from langlauf.bench.work import RESULT, claim_request
from langlauf.clock import new_id
from langlauf.domain.outcome import Completed

_SAMPLES = 100
_AT_ONCE = 500
#: What a queue without lanes asks. It is undone, so that the next one looks for the same job.
_BARE = """
SELECT job_id FROM jobs
WHERE org_id = $1 AND analysis = $2 AND priority_class = 'default' AND started_at IS NULL AND finished_at IS NULL
ORDER BY ticket LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_BY_INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;"
_NO_VACUUM = "ALTER TABLE {} SET (autovacuum_enabled = off)"
_TABLES = ("jobs", "leases", "lanes", "lane_clock", "waiting_counts", "pace")


async def measure_dead(server: str, taken: int, watch_fill: Watch, watch: Watch) -> list[Compared]:
    """Claims before and after so many jobs were taken that no vacuum may remove."""
    async with AsyncExitStack() as stack:
        filling = Filling(jobs=taken + 2 * _SAMPLES)
        site = await Site.made(stack, server, "", filling, watch_fill)
        bare = await stack.enter_async_context(connected(site.url, _BY_INDEX))
        for table in _TABLES:
            await bare.execute(_NO_VACUUM.format(table))
        long_reader = await stack.enter_async_context(connected(site.url))
        await long_reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await long_reader.fetchval("SELECT count(*) FROM lanes")
        before = await _costs(site, bare)
        await _take(site, taken, watch)
        after = await _costs(site, bare)
        await long_reader.execute("ROLLBACK")
    labels = ["nothing taken", f"{taken:,} taken and not vacuumed"]
    names = ("claim of one job", "first entry of the index, as a bare queue asks")
    return [
        Compared(what=name, beside=labels, figures=[first, last], ratio=round(last / first, 3), wanted=wanted)
        for name, first, last, wanted in zip(names, before, after, ("under 1.5", "what lanes avoid"), strict=True)
    ]


async def _costs(site: Site, bare: Any) -> list[float]:
    """Microseconds of a claim, and of the bare question."""
    values = (org_name(0), site.filling.names[0])
    claims, asked = [], []
    await site.claim(1)
    for _ in range(_SAMPLES):
        claims.append(await site.claim(1))
        began = time.perf_counter()
        await bare.fetchval(_BARE, *values)
        asked.append(time.perf_counter() - began)
    return [round(statistics.median(seconds) * 1e6, 1) for seconds in (claims, asked)]


async def _take(site: Site, jobs: int, watch: Watch) -> None:
    """Claims and completes so many."""
    done = 0
    while done < jobs:
        request = claim_request(min(_AT_ONCE, jobs - done), site.filling.names, lease_seconds=LEASE_SECONDS)
        claims = await site.store.claim(request)
        ends = (site.store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT)) for claim in claims)
        await asyncio.gather(*ends)
        done += len(claims)
        watch(done, jobs)
