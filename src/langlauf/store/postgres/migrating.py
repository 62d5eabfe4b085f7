"""Brings the schema of a database up to date: each step once, under a lock, whoever else starts at the same moment.

Tables change step by step. All else, functions, views and triggers, is text that says what is to be: it is installed
as a whole where it is not what the database has.
"""

import hashlib
from importlib import resources
from typing import Any

import asyncpg

from langlauf.domain.errors import SettingsError
from langlauf.store.migrate import Migration, migrations_in, pending
from langlauf.store.postgres.roles import ensure_roles, guard
from langlauf.store.queries import filled
from langlauf.version import VERSION

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
_INSTALLED = "SELECT langlauf.installed_functions()"
_INSTALL = """
INSERT INTO installed (only_row, digest, release) VALUES (1, $1, $2)
ON CONFLICT (only_row) DO UPDATE SET digest = excluded.digest, release = excluded.release
"""


async def applied_migrations(connection: Any) -> int:
    """How many migrations the database has seen."""
    if await connection.fetchval("SELECT to_regclass('langlauf.migrations')") is None:
        return 0
    return int(await connection.fetchval("SELECT coalesce(max(number), 0) FROM langlauf.migrations"))


def functions_in(package: str = PACKAGE) -> list[Migration]:
    """The files of functions, views and triggers, in the order of their numbers."""
    files = resources.files(package).joinpath("functions").iterdir()
    found = [(file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in files if file.name.endswith(".sql")]
    return [Migration(int(name[:2]), name[3:], filled(sql)) for name, sql in sorted(found)]


def digest_of(functions: list[Migration]) -> str:
    """What tells one set of functions from another."""
    return hashlib.sha256("\0".join(step.sql for step in functions).encode()).hexdigest()


async def migrate(
    connection: Any, known: list[Migration] | None = None, functions: list[Migration] | None = None
) -> list[str]:
    """Applies what is missing, all of it or nothing; returns the names."""
    known = migrations_in(PACKAGE) if known is None else known
    functions = functions_in() if functions is None else functions
    applied = await _seen(connection)
    if not pending(known, applied) and not await _outdated(connection, functions):
        await _let_callers_in(connection)
        return []
    if not await connection.fetchval(_MAY_MIGRATE):
        raise SettingsError(
            f"the database has schema {applied} and this program needs {len(known)} with its own functions, but its "
            "login may not change the schema: run `langlauf migrate` with the login of the owner"
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
        names = [f"{step.number:04d}_{step.name}" for step in done]
        if done or await _outdated(connection, functions):
            await _install(connection, functions)
            names.append("functions")
    return names


async def _outdated(connection: Any, functions: list[Migration]) -> bool:
    """Whether the database has other functions than these, and not those of a later release."""
    if await connection.fetchval("SELECT to_regprocedure('langlauf.installed_functions()')") is None:
        return True
    noted = await connection.fetchval(_INSTALLED)
    if noted is None or noted == f"{VERSION} {digest_of(functions)}":
        return noted is None
    return _release(noted.partition(" ")[0]) <= _release(VERSION)


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


async def _install(connection: Any, functions: list[Migration]) -> None:
    """Replaces all functions, views and triggers."""
    await connection.execute("SET LOCAL check_function_bodies = off")
    await connection.execute(resources.files(PACKAGE).joinpath("clearing.sql").read_text("utf-8"))
    for step in functions:
        await connection.execute(step.sql)
    await connection.execute(_INSTALL, digest_of(functions), VERSION)
    await guard(connection, functions)
    # What the schema is now: `verify` tells where it is no longer so.
    await connection.execute("SELECT note_schema()")


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
