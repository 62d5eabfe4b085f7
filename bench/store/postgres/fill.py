"""Fills a database with jobs that wait or have finished: one that is real, copied with other ids, orgs and times.

Copying takes every column along, so that the copies stay true when the schema changes. Indexes are made at the end,
which is far quicker than to keep them up to date. Lanes and counts are what submitting that many jobs leaves.
"""

from typing import Any

import msgspec

from langlauf.bench.postgres import connected
from langlauf.bench.rounds import ANALYSIS, ORG, RESULT, OnProgress, claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Partial
from langlauf.domain.errors import LanglaufError
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from langlauf.store.protocol import Store

_ROWS_PER_STEP = 100_000
#: The copies are this far apart: a million of them fill a month.
_MICROSECONDS_APART = 2_500_000
_WAITING = ("job_rows", "event_rows")
_FINISHED = (*_WAITING, "result_rows")
_SETTINGS = """
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';
SET langlauf.copying = 'on';
"""
_INDEXES = """
SELECT index.relname AS name, pg_get_indexdef(index.oid) AS made_by,
    rule.conname AS rule, pg_get_constraintdef(rule.oid) AS rule_is
FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid
LEFT JOIN pg_constraint AS rule ON rule.conindid = index.oid AND rule.contype IN ('p', 'u')
WHERE indrelid = $1::text::regclass
"""


class Filling(msgspec.Struct, frozen=True, kw_only=True):
    """How many copies, and of whom: job after job goes to the next org, and after all orgs to the next analysis."""

    jobs: int
    orgs: int = 1
    analyses: int = 1
    finished: bool = False
    prefix: str = ORG

    @property
    def names(self) -> tuple[str, ...]:
        """The analyses."""
        return tuple(analysis_name(number) for number in range(self.analyses))


def org_name(number: int, prefix: str = ORG) -> str:
    """Return the org of that number; the first is 0."""
    return f"{prefix}-{number}"


def analysis_name(number: int) -> str:
    """Return the analysis of that number; the first is 0."""
    return f"{ANALYSIS}-{number}"


def _id(variant: str) -> str:
    """Return an id of version 7 as SQL, sorted by age as real ones are; the variant keeps those of one job apart."""
    return (
        f"(lpad(to_hex(made / 1000), 12, '0') || '7' || lpad(to_hex(number & 4095), 3, '0') || '{variant}'"
        " || lpad(to_hex((number * 2654435761 + 7) & 1152921504606846975), 15, '0'))::uuid"
    )


#: What differs from copy to copy, by column. `number` counts up from 1, `made` is the time of the copy.
_CHANGED = {
    "org_id": "org",
    "analysis": "name",
    "job": _id("8"),
    # The final snapshot is the one that the job names.
    "result": f"CASE WHEN result IS NULL THEN NULL WHEN is_final THEN {_id('9')} ELSE {_id('a')} END",
    "payload_hash": "sha256(number::text::bytea)",
    "ticket": "place",
}


async def fill(url: str, filling: Filling, watch: OnProgress = lambda _, __: None) -> None:
    """Copies so many jobs into a database that is not in use yet."""
    model = await _one_real_job(url, finished=filling.finished)
    tables = _FINISHED if filling.finished else _WAITING
    async with connected(url, _SETTINGS) as connection:
        rebuilt = [statement for table in tables for statement in await _drop_indexes(connection, table)]
        starts = range(1, filling.jobs + 1, _ROWS_PER_STEP)
        done, steps = 0, len(tables) * len(starts) + len(rebuilt) + 1
        for table in tables:
            statement = await _copy_statement(connection, table, filling)
            for start in starts:
                last = min(filling.jobs, start + _ROWS_PER_STEP - 1)
                await connection.execute(statement, model, start, last, timeout=None)
                watch(done := done + 1, steps)
        for sql in rebuilt:
            await connection.execute(sql, timeout=None)
            watch(done := done + 1, steps)
        if not filling.finished:
            await _count_in(connection, filling)
        await connection.execute("VACUUM (ANALYZE)", timeout=None)
        watch(steps, steps)


async def _one_real_job(url: str, *, finished: bool) -> str:
    clock = SystemClock()
    new = new_job(clock)
    store = await PostgresStore.open(url, hints=Hints())
    try:
        await store.submit(new)
        if finished:
            await _finish(store)
    finally:
        await store.close()
    return new.job.job_id


async def _finish(store: Store) -> None:
    [claim] = await store.claim(claim_request(1))
    await store.record(claim.lease, Partial(result_id=new_id(), payload=RESULT, percent=50))
    if not await store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT)):
        raise LanglaufError("the first job of the benchmark lost its lease")


async def _drop_indexes(connection: Any, table: str) -> list[str]:
    """Drop the indexes of a table; returns the statements that bring them back."""
    found = await connection.fetch(_INDEXES, table)
    for row in found:
        await connection.execute(
            f"ALTER TABLE {table} DROP CONSTRAINT {row['rule']}" if row["rule"] else f"DROP INDEX {row['name']}"
        )
    return [
        f"ALTER TABLE {table} ADD CONSTRAINT {row['rule']} {row['rule_is']}" if row["rule"] else str(row["made_by"])
        for row in found
    ]


async def _copy_statement(connection: Any, table: str, filling: Filling) -> str:
    """Copies what the real job has in a table, for copies from one number to another."""
    rows = await connection.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped",
        table,
    )
    columns = [str(row["attname"]) for row in rows]
    is_final = "result_kind = 'final'" if "result_kind" in columns else "true"
    lanes = filling.orgs * filling.analyses
    return f"""
        WITH real AS MATERIALIZED (
            SELECT model.*, {is_final} AS is_final, first.queued_at AS real_time
            FROM {table} AS model JOIN job_rows AS first USING (job) WHERE job = $1::text::uuid),
        copies AS (
            SELECT real.*, number,
                real_time - ({filling.jobs} - number) * {_MICROSECONDS_APART} AS made,
                '{filling.prefix}-' || (number - 1) % {filling.orgs} AS org,
                '{ANALYSIS}-' || (number - 1) / {filling.orgs} % {filling.analyses} AS name,
                (number - 1) / {lanes} + 1 AS place
            FROM generate_series($2::bigint, $3::bigint) AS number CROSS JOIN real)
        INSERT INTO {table} ({", ".join(columns)})
        SELECT {", ".join(_value(column) for column in columns)} FROM copies"""


def _value(column: str) -> str:
    return f"made + ({column} - real_time)" if column.endswith("_at") else _CHANGED.get(column, column)


async def _count_in(connection: Any, filling: Filling) -> None:
    """The lanes and counts of what waits."""
    await connection.execute(
        """
        INSERT INTO lanes (org_id, analysis, waiting, virtual_start, default_last)
        SELECT org_id, analysis, count(*), 0, max(ticket) FROM jobs
        WHERE finished_at IS NULL AND starts_with(org_id, $1) GROUP BY org_id, analysis""",
        f"{filling.prefix}-",
        timeout=None,
    )
    await connection.execute(
        """
        INSERT INTO waiting_counts AS mine (analysis, shard, waiting)
        SELECT analysis, 0, sum(waiting) FROM lanes WHERE starts_with(org_id, $1) GROUP BY analysis
        ON CONFLICT (analysis, shard) DO UPDATE SET waiting = mine.waiting + excluded.waiting""",
        f"{filling.prefix}-",
    )
