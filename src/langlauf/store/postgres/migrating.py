"""Brings the schema of a database up to date: each step once, under a lock, whoever else starts at the same moment."""

from typing import Any

import asyncpg

from langlauf.domain.errors import SettingsError
from langlauf.store.migrate import Migration, migrations_in, pending
from langlauf.store.postgres.roles import ensure_roles, guard

PACKAGE = "langlauf.store.postgres"
#: Whoever migrates holds this lock of the database until its transaction ends.
MIGRATION_LOCK = 0x6C616E676C617566
_LEDGER = """
CREATE SCHEMA IF NOT EXISTS langlauf;
CREATE TABLE IF NOT EXISTS langlauf.migrations (
    number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
"""
_MAY_MIGRATE = """
SELECT coalesce(
    (SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'langlauf'),
    has_database_privilege(current_database(), 'CREATE'))
"""
_OWNED = """
SELECT EXISTS (SELECT FROM pg_proc WHERE pronamespace = to_regnamespace('langlauf') AND proname = 'grants_due'
               AND pg_has_role(proowner, 'USAGE'))
"""


async def applied_migrations(connection: Any) -> int:
    """How many migrations the database has seen."""
    if await connection.fetchval("SELECT to_regclass('langlauf.migrations')") is None:
        return 0
    return int(await connection.fetchval("SELECT coalesce(max(number), 0) FROM langlauf.migrations"))


async def migrate(connection: Any, known: list[Migration] | None = None) -> list[str]:
    """Applies what is missing, all of it or nothing; returns the names."""
    known = migrations_in(PACKAGE) if known is None else known
    applied = await _seen(connection)
    if not pending(known, applied):
        await _let_callers_in(connection)
        return []
    if not await connection.fetchval(_MAY_MIGRATE):
        raise SettingsError(
            f"the database has schema {applied} and this program needs {len(known)}, but its login may not change the "
            "schema: run `langlauf migrate` with the login of the owner"
        )
    await ensure_roles(connection)
    async with connection.transaction():
        await connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
        await connection.execute(_LEDGER)
        # Another host may have been faster while this one waited for the lock.
        done = pending(known, await applied_migrations(connection))
        await connection.execute("SET LOCAL search_path = langlauf, pg_temp")
        for step in done:
            await connection.execute(step.sql)
            await connection.execute(
                "INSERT INTO langlauf.migrations (number, name) VALUES ($1, $2)", step.number, step.name
            )
        if done:
            await guard(connection, known)
            # What the schema is now: `verify` tells where it is no longer so.
            await connection.execute("SELECT note_schema()")
    return [f"{step.number:04d}_{step.name}" for step in done]


async def _seen(connection: Any) -> int:
    """The number of the schema; a login that nobody has let in hears what is missing."""
    try:
        return await applied_migrations(connection)
    except asyncpg.InsufficientPrivilegeError as error:
        login = await connection.fetchval("SELECT current_user")
        raise SettingsError(
            f"the login {login!r} may not use the store ({error}): "
            f"`langlauf migrate --print-roles --login {login}` prints the SQL that lets it in"
        ) from error


async def _let_callers_in(connection: Any) -> None:
    """Gives roles of callers that were made since what they are meant to have; whoever may not give it leaves it."""
    if not await connection.fetchval(_OWNED):
        return
    if await connection.fetchval("SELECT EXISTS (SELECT FROM langlauf.grants_due())"):
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
            await connection.execute("SELECT langlauf.let_callers_in()")
