"""Fills a store with finished jobs: one that lived for real, copied with other ids and times.

Copying takes every column along, so that the copies stay true when the schema changes. Indexes are made at the end,
which is far quicker than to keep them up to date.
"""

from pathlib import Path

import apsw
import uvloop

from langlauf.bench.figures import ORG, Watch
from langlauf.bench.work import RESULT, claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Partial
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.sqlite.connection import open_connection
from langlauf.store.sqlite.driver import SqliteStore

_ROWS_PER_STEP = 50_000
#: The copies are this far apart: a million of them fill a month.
_MICROSECONDS_APART = 2_500_000
_COPIED = ("jobs", "job_inputs", "job_events", "job_results", "notifications")


def _id(variant: str) -> str:
    """An id of version 7 as SQL, sorted by age as real ones are; the variant keeps those of one job apart."""
    return (
        f"printf('%08x-%04x-7%03x-{variant}%03x-%012x', "
        "made >> 16, made & 65535, age & 4095, age & 4095, age * 2654435761 & 281474976710655)"
    )


#: What differs from copy to copy, by column. `age` counts back from the real job, `made` is its time in milliseconds.
_CHANGED = {
    "job_id": _id("8"),
    # The final snapshot is the one that the job names.
    "result_id": f"iif(is_final, {_id('9')}, {_id('a')})",
    "notification_id": _id("b"),
    "event_id": _id("8"),
    "request_payload_hash": "lower(hex(randomblob(32)))",
    "dedupe_key": f"{_id('8')} || substr(dedupe_key, length(job_id) + 1)",
}


def fill(path: Path, jobs: int, watch: Watch) -> None:
    """Makes a store with that many finished jobs."""
    uvloop.run(_one_real_job(path))
    connection = open_connection(str(path))
    try:
        # A crash here costs nothing but the benchmark.
        connection.execute("PRAGMA journal_mode = OFF").fetchall()
        connection.execute("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; PRAGMA temp_store = FILE")
        rebuilt = _drop_indexes_and_triggers(connection)
        steps = len(_COPIED) * len(range(0, jobs - 1, _ROWS_PER_STEP)) + len(rebuilt)
        done = 0
        for table in _COPIED:
            statement = _copy_statement(connection, table)
            for start in range(jobs - 1, 0, -_ROWS_PER_STEP):
                connection.execute(statement, {"oldest": start, "newest": max(1, start - _ROWS_PER_STEP + 1)})
                watch(done := done + 1, steps)
        for sql in rebuilt:
            connection.execute(sql)
            watch(done := done + 1, steps)
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    finally:
        connection.close()


async def _one_real_job(path: Path) -> None:
    clock = SystemClock()
    store = await SqliteStore.open(str(path), clock=clock, hints=Hints())
    try:
        await store.submit(new_job(clock))
        [claim] = await store.claim(claim_request(1))
        await store.record(claim.lease, Partial(result_id=new_id(), payload=RESULT, percent=50))
        await store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT))
    finally:
        await store.close()


def _drop_indexes_and_triggers(connection: apsw.Connection) -> list[str]:
    """Drops what was made by a statement of its own; returns the statements that bring it back."""
    found = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    ).fetchall()
    for kind, name, _ in found:
        connection.execute(f"DROP {kind} {name}")
    return [str(sql) for _, _, sql in found]


def _copy_statement(connection: apsw.Connection, table: str) -> str:
    """Copies what the real job, which came first, has in a table."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    is_final = "result_kind = 'final'" if "result_kind" in columns else "TRUE"
    return f"""
        WITH RECURSIVE
            ages (age) AS (SELECT :oldest UNION ALL SELECT age - 1 FROM ages WHERE age > :newest),
            real AS MATERIALIZED (
                SELECT job_id AS real_id, queued_at / 1000 AS real_time FROM jobs ORDER BY rowid LIMIT 1),
            model AS MATERIALIZED (
                SELECT {table}.*, real_time, {is_final} AS is_final
                FROM real JOIN {table} ON org_id = '{ORG}' AND job_id = real_id),
            copies AS (SELECT *, real_time - age * {_MICROSECONDS_APART // 1_000} AS made FROM ages CROSS JOIN model)
        INSERT INTO {table} ({", ".join(columns)})
        SELECT {", ".join(_value(column) for column in columns)} FROM copies"""  # noqa: S608 - names from the schema


def _value(column: str) -> str:
    return f"{column} - age * {_MICROSECONDS_APART}" if column.endswith("_at") else _CHANGED.get(column, column)
