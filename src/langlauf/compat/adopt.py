"""Adopts the table of an earlier system: all of it in one transaction, or nothing; a second time changes nothing."""

import asyncio
from typing import Any, NamedTuple

import asyncpg

from langlauf.clock import monotonic
from langlauf.compat.earlier_table import CannotAdopt, EarlierTable, Step
from langlauf.store.postgres.connection import DatabaseConnection
from langlauf.store.postgres.migrate import MIGRATION_LOCK

#: Who waits for the table holds up everybody who comes later: so the wait is short, and tried again after a pause.
LOCK_SECONDS = 2.0
PAUSE_SECONDS = 0.5
#: How long it is tried in all.
PATIENCE_SECONDS = 30.0
#: What the change itself may take: a table of an earlier system is small, and its indexes are made while it is locked.
WORK_SECONDS = 600.0


class Adoption(NamedTuple):
    """What was done, or in a dry run what would be."""

    table: str
    dry_run: bool
    steps: list[Step]
    #: views of users that were made before the columns, and do not show them
    views: list[str]

    def script(self) -> str:
        """Return the same as SQL for `psql`; nothing where there is nothing to do."""
        if not self.steps:
            return ""
        return ";\n".join(["BEGIN", *_first(self.table), *(step.sql for step in self.steps), "COMMIT", ""])


async def adopt_reading_jobs(url: str, *, schema: str = "public", dry_run: bool = False) -> Adoption:
    """Give the table what it lacks; refuse with everything that stands in the way, and change nothing then."""
    connection = DatabaseConnection(url, "adopt")
    try:
        return await connection.use(lambda raw: _adopt(raw, schema, dry_run=dry_run), timeout_seconds=WORK_SECONDS)
    finally:
        await connection.close()


async def _adopt(connection: Any, schema: str, *, dry_run: bool) -> Adoption:
    await connection.execute("SET search_path = pg_catalog, pg_temp; SET statement_timeout = 0")
    table = await EarlierTable.find(connection, schema)
    steps = await table.missing(connection)
    deadline = monotonic() + PATIENCE_SECONDS
    while steps and not dry_run:
        try:
            steps = await _change(connection, schema)
            break
        except asyncpg.LockNotAvailableError:
            if monotonic() + PAUSE_SECONDS >= deadline:
                raise CannotAdopt(
                    f"{table.shown} was not changed: others have held it for {PATIENCE_SECONDS:g} s"
                ) from None
            await asyncio.sleep(PAUSE_SECONDS)
    return Adoption(table.shown, dry_run, steps, await table.views_without(connection))


async def _change(connection: Any, schema: str) -> list[Step]:
    """Inspect the table again under the lock, since it may have changed, and apply what is missing."""
    async with connection.transaction(isolation="read_committed"):
        table = await EarlierTable.find(connection, schema)
        for statement in _first(table.shown):
            await connection.execute(statement)
        steps = await table.missing(connection)
        for step in steps:
            await connection.execute(step.sql)
    return steps


def _first(table: str) -> list[str]:
    return [
        f"SET LOCAL lock_timeout = '{LOCK_SECONDS:g}s'",
        f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})",
        f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE",
    ]
