"""What is left in an index of jobs that were taken, until it is vacuumed: whether a claim has to walk over it.

A queue that takes the first entry of an index walks over all that were taken before, as long as they cannot be removed:
while nothing is vacuumed, or while a long transaction may still look at them. A lane knows the ticket of its first job
and starts there. Both are measured before and after many jobs were taken.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from bench.store.figures import Compared, compare_medians
from bench.store.postgres.comparison import LEASE_SECONDS, Site, Step, in_turns
from bench.store.postgres.fill import Filling, analysis_name, org_name
from langlauf.bench.postgres import connected
from langlauf.bench.rounds import RESULT, OnProgress, claim_request
from langlauf.clock import new_id
from langlauf.domain.outcome import Completed

_AT_ONCE = 500
#: What a queue without lanes asks. It is undone, so that the next one looks for the same job.
_BARE = """
SELECT job FROM job_rows
WHERE org_id = $1 AND analysis = $2 AND priority_class = 'default' AND started_at IS NULL AND finished_at IS NULL
ORDER BY ticket LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_BY_INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;"
_NO_VACUUM = "ALTER TABLE {} SET (autovacuum_enabled = off)"
_TABLES = ("job_rows", "lanes", "lane_clock", "waiting_counts", "pace")


async def measure_dead(
    server: str, taken: int, samples: int, watch_fill: OnProgress, watch: OnProgress
) -> list[Compared]:
    """Claims before and after so many jobs were taken that no vacuum may remove."""
    async with AsyncExitStack() as stack:
        before = await Site.made(stack, server, "nothing taken", Filling(jobs=taken + 3 * samples), watch_fill)
        after = before.labelled(f"{taken:,} taken beside a long transaction")
        bare = await stack.enter_async_context(connected(before.url, _BY_INDEX))
        for table in _TABLES:
            await bare.execute(_NO_VACUUM.format(table))
        long_reader = await stack.enter_async_context(connected(before.url))
        await long_reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await long_reader.fetchval("SELECT count(*) FROM lanes")
        steps: list[Step] = [
            ("claim of one job", "claim", samples, lambda site: site.claim(1)),
            ("first entry of the index, as a bare queue asks", "bare", samples, lambda _: _ask(bare)),
        ]
        await in_turns([before], steps, _nothing)
        await _take(before, taken, watch)
        await in_turns([after], steps, _nothing)
        await long_reader.execute("ROLLBACK")
        return [compare_medians(name, [before, after]) for name, *_ in steps]


def _nothing(_: int, __: int) -> None:
    return


async def _ask(bare: Any) -> float:
    """Seconds for the question that a queue without lanes asks."""
    began = time.perf_counter()
    await bare.fetchval(_BARE, org_name(0), analysis_name(0))
    return time.perf_counter() - began


async def _take(site: Site, jobs: int, watch: OnProgress) -> None:
    """Claims and completes so many."""
    done = 0
    while done < jobs:
        request = claim_request(min(_AT_ONCE, jobs - done), site.filling.names, lease_seconds=LEASE_SECONDS)
        claims = await site.store.claim(request)
        ends = (site.store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT)) for claim in claims)
        await asyncio.gather(*ends)
        done += len(claims)
        watch(done, jobs)
