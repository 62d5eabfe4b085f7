"""Fills a store with jobs that wait or have finished: one that is real, copied with other ids, orgs and times.

Copying takes every column along, so that the copies stay true when the schema changes. Indexes are made at the end,
which is far quicker than to keep them up to date. Lanes and counts are what submitting that many jobs leaves.
"""

from pathlib import Path

import apsw
import msgspec
import uvloop

from langlauf.bench.rounds import ANALYSIS, ORG, RESULT, OnProgress, claim_request, new_job
from langlauf.clock import SystemClock, new_id
from langlauf.domain.attempt import Partial
from langlauf.domain.outcome import Completed
from langlauf.hints import Hints
from langlauf.store.sql import json_text, load_queries
from langlauf.store.sqlite.connection import open_connection
from langlauf.store.sqlite.driver import SqliteStore

_ROWS_PER_STEP = 50_000
#: The copies are this far apart: a million of them fill a month.
_MICROSECONDS_APART = 2_500_000
_COPIED = ("job_rows", "event_rows", "result_rows")
_SQL = load_queries("bench.store", "fill.sql")


class Filling(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs, and of whom: job after job goes to the next org, and after all orgs to the next analysis."""

    jobs: int
    orgs: int = 1
    analyses: int = 1
    finished: bool = False

    @property
    def org_names(self) -> tuple[str, ...]:
        """The orgs, in the order of their numbers."""
        return (ORG, *(f"{ORG}-{number}" for number in range(1, self.orgs)))

    @property
    def names(self) -> tuple[str, ...]:
        """The analyses, in the order of theirs."""
        return (ANALYSIS, *(f"{ANALYSIS}-{number}" for number in range(1, self.analyses)))


def _id(variant: str) -> str:
    """Return an id of version 7 as SQL, sorted by age as real ones are; the variant keeps those of one job apart."""
    return (
        f"printf('%08x-%04x-7%03x-{variant}%03x-%012x', "
        "made >> 16, made & 65535, place & 4095, place & 4095, place * 2654435761 & 281474976710655)"
    )


#: What differs from copy to copy, by column. `place` counts up from the real job, `made` is the time in milliseconds.
_CHANGED = {
    "job": "1 + place",
    "org": "1 + place % :orgs",
    "analysis": "1 + place / :orgs % :analyses",
    "ticket": "1 + place / (:orgs * :analyses)",
    "job_id": _id("8"),
    # The final snapshot is the one that the job names.
    "result_id": f"CASE WHEN result_id IS NULL THEN NULL WHEN is_final THEN {_id('9')} ELSE {_id('a')} END",
    "payload_hash": "randomblob(32)",
    # the next one
    "result": "NULL",
}


def fill(path: Path, filling: Filling, watch: OnProgress) -> None:
    """Make a store with that many jobs."""
    uvloop.run(_one_real_job(path, finished=filling.finished))
    connection = open_connection(str(path))
    try:
        # A crash here costs nothing but the benchmark.
        connection.execute("PRAGMA journal_mode = OFF").fetchall()
        connection.execute("PRAGMA synchronous = OFF; PRAGMA temp_store = FILE")
        connection.executemany(_SQL["name_org"], list(enumerate(filling.org_names, 1)))
        connection.executemany(_SQL["name_analysis"], list(enumerate(filling.names, 1)))
        _copy(connection, filling, watch)
        connection.execute(_SQL["count_lanes"])
        connection.execute(_SQL["count_waiting"])
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    finally:
        connection.close()


def _copy(connection: apsw.Connection, filling: Filling, watch: OnProgress) -> None:
    rebuilt = _drop_indexes_and_triggers(connection)
    sizes = {"jobs": filling.jobs, "orgs": filling.orgs, "analyses": filling.analyses}
    starts = range(1, filling.jobs, _ROWS_PER_STEP)
    done, steps = 0, len(_COPIED) * len(starts) + len(rebuilt)
    for table in _COPIED:
        statement = _copy_statement(connection, table)
        for first in starts:
            last = min(filling.jobs, first + _ROWS_PER_STEP) - 1
            connection.execute(statement, {**sizes, "first": first, "last": last})
            watch(done := done + 1, steps)
    for sql in rebuilt:
        connection.execute(sql)
        watch(done := done + 1, steps)


async def _one_real_job(path: Path, *, finished: bool) -> None:
    clock = SystemClock()
    store = await SqliteStore.open(str(path), clock=clock, hints=Hints())
    try:
        await store.submit(new_job(clock))
        if finished:
            [claim] = await store.claim(claim_request(1))
            await store.record(claim.lease, Partial(result_id=new_id(), payload=RESULT, percent=50))
            await store.record(claim.lease, Completed(result_id=new_id(), payload=RESULT))
    finally:
        await store.close()


def _drop_indexes_and_triggers(connection: apsw.Connection) -> list[str]:
    """Drop what was made for the tables by a statement of its own; returns the statements that bring it back."""
    found = connection.execute(_SQL["made_for_tables"], (json_text(_COPIED),)).fetchall()
    for kind, name, _ in found:
        connection.execute(f"DROP {kind} {name}")
    return [str(sql) for _, _, sql in found]


def _copy_statement(connection: apsw.Connection, table: str) -> str:
    """Copies what the real job, which came first, has in a table."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    is_final = "result_kind = 'final'" if "result_kind" in columns else "TRUE"
    return f"""
        WITH RECURSIVE
            places (place) AS (SELECT :first UNION ALL SELECT place + 1 FROM places WHERE place < :last),
            real AS MATERIALIZED (SELECT queued_at / 1000 AS real_time FROM job_rows WHERE job = 1),
            model AS MATERIALIZED (
                SELECT {table}.*, real_time, {is_final} AS is_final FROM real CROSS JOIN {table} WHERE job = 1),
            copies AS (
                SELECT *, :jobs - place AS age, real_time - (:jobs - place) * {_MICROSECONDS_APART // 1_000} AS made
                FROM places CROSS JOIN model)
        INSERT INTO {table} ({", ".join(columns)})
        SELECT {", ".join(_value(column) for column in columns)} FROM copies"""


def _value(column: str) -> str:
    return f"{column} - age * {_MICROSECONDS_APART}" if column.endswith("_at") else _CHANGED.get(column, column)
