"""What a job writes: few rows, few index entries, and none while it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from langlauf.domain.attempt import Claim, Lease, Partial, Progress
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from tests.support.postgres import fetch
from tests.support.postgres_stores import migrated_database
from tests.support.processes import eventually
from tests.support.stores import SetClock
from tests.support.submissions import accept, claim

_BATCHES, _SIZE = 4, 32
_JOBS = _BATCHES * _SIZE
_WRITES = """
SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables
WHERE schemaname = 'langlauf' AND relname NOT IN ('schema_made', 'migrations', 'installed', 'feed_home', 'duties')
"""
#: The columns of the indexes of jobs and of their conditions.
_INDEXED = """
SELECT DISTINCT one.attname FROM pg_depend AS needs
JOIN pg_attribute AS one ON one.attrelid = needs.refobjid AND one.attnum = needs.refobjsubid
WHERE needs.classid = 'pg_class'::regclass AND needs.refobjid = 'langlauf.job_rows'::regclass AND needs.refobjsubid > 0
  AND needs.objid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'langlauf.job_rows'::regclass)
"""
#: The conditions of the indexes of jobs.
_ENTRIES = """
SELECT coalesce(pg_get_expr(indpred, indrelid), 'true') FROM pg_index WHERE indrelid = 'langlauf.job_rows'::regclass
"""
_UPDATES = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'langlauf.job_rows'::regclass"
Play = Callable[[PostgresStore, Sequence[Claim]], Awaitable[None]]


async def _lives(url: str, play: Play, *, end: bool = True) -> None:
    """Run jobs in batches from submission to completion, then close the connections, which reports their statistics."""
    clock = SetClock()
    store = await PostgresStore.open(url, hints=Hints(), notify=False, clock=clock)
    try:
        for _ in range(_BATCHES):
            await asyncio.gather(*(accept(store, clock) for _ in range(_SIZE)))
            claims = await claim(store, _SIZE, max_running=1_000)
            assert len(claims) == _SIZE
            await play(store, claims)
            if end:
                await asyncio.gather(*(_complete(store, made.lease) for made in claims))
    finally:
        await store.close()


async def _complete(store: PostgresStore, lease: Lease) -> None:
    assert await store.record(lease, Completed(result_id=lease.job_id, payload="{}"))


async def _nothing(_: PostgresStore, __: Sequence[Claim]) -> None:
    return


async def _busy(store: PostgresStore, claims: Sequence[Claim]) -> None:
    leases = [made.lease for made in claims]
    for number in range(4):
        assert all(one.held for one in await store.renew(leases, lease_seconds=15))
        percent = 20 * number + 5
        await asyncio.gather(*(store.record(lease, Progress(percent=percent, step="on")) for lease in leases))
        await asyncio.gather(
            *(
                store.record(lease, Partial(result_id=f"{lease.job_id}-{number}", payload="{}", percent=percent))
                for lease in leases
            )
        )


def _counted(url: str, sql: str) -> tuple[int, ...]:
    """Return statistics after all writing connections are gone: each reports when it ends."""
    others = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    eventually(lambda: not fetch(url, others))
    [found] = fetch(url, sql)
    return tuple(int(one) for one in found)


def test_a_job_writes_few_rows() -> None:
    """Its own three times, three events and a result; counts are written once for a batch."""
    with migrated_database() as url:
        (before,) = _counted(url, _WRITES)
        asyncio.run(_lives(url, _nothing))
        (after,) = _counted(url, _WRITES)
    assert 7 * _JOBS <= after - before <= 8 * _JOBS


def test_writes_of_a_running_job_are_hot() -> None:
    """Heartbeats, progress and partials set no column of an index or its condition: they can be HOT."""
    seen: list[list[tuple[object, ...]]] = []

    async def play(store: PostgresStore, claims: Sequence[Claim]) -> None:
        seen.append(await asyncio.to_thread(fetch, url, looked_at))
        await _busy(store, claims)
        seen.append(await asyncio.to_thread(fetch, url, looked_at))

    with migrated_database() as url:
        columns = sorted(str(name) for (name,) in fetch(url, _INDEXED))
        assert {"final_state", "finished_at", "deadline_at"} <= set(columns)
        looked_at = f"SELECT {', '.join(columns)} FROM langlauf.job_rows ORDER BY job"
        asyncio.run(_lives(url, play))
    assert len(seen) == 2 * _BATCHES
    assert seen[::2] == seen[1::2]


def test_most_updates_of_running_jobs_are_hot() -> None:
    """They find room in their pages, too; a claim and an end are the two updates of a job that cannot be HOT.

    On an idle machine these are 97 of 100. On a busy one a transaction that is held up keeps old versions in the pages.
    """
    with migrated_database() as url:
        asyncio.run(_lives(url, _busy))
        updates, hot = _counted(url, _UPDATES)
    assert hot > 0.75 * (updates - 2 * _JOBS)


def test_a_job_is_in_four_indexes_at_any_time() -> None:
    """While it waits, while it runs, and once it has ended."""
    with migrated_database() as url:
        for play in (False, True):
            asyncio.run(_lives(url, _nothing, end=play))
        conditions = [condition for (condition,) in fetch(url, _ENTRIES)]
        for status in ("running", "completed"):
            sums = ", ".join(
                f"sum(coalesce({condition}, false)::integer)::float8 / count(*)" for condition in conditions
            )
            [found] = fetch(url, f"SELECT {sums} FROM langlauf.job_rows WHERE status = '{status}'")
            assert sum(found) == 4, status
