"""The two roles of the database: made where the login may make them, asked for by their SQL where it may not."""

import asyncio
import re
from importlib import resources
from typing import Any

import asyncpg

from langlauf.domain.errors import SettingsError
from langlauf.store.migrate import Migration

#: Functions whose names begin like this read for one org, and run as the role that sees one org alone.
_READ = "read_"
_FUNCTION = re.compile(r"^CREATE(?: OR REPLACE)? FUNCTION (\w+)", re.MULTILINE)
_STATE = """
SELECT rolname AS name, rolsuper OR rolbypassrls AS boundless,
    pg_has_role(oid, 'USAGE') AND CASE
        WHEN current_setting('server_version_num')::integer >= 160000 THEN pg_has_role(oid, 'SET') ELSE true END AS ours
FROM pg_roles WHERE rolname IN ('langlauf_api', 'langlauf_engine')
"""
_BOTH = 2
#: Another database of the server makes the same roles at this moment.
_CLASHES = (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError, asyncpg.InternalServerError)
_TRIES = 20
_PAUSE = 0.05


def roles_sql(migrating: str, running: str | None = None) -> str:
    """What an administrator runs: for the login that migrates, and for one that only runs the program, if named."""
    made = _sql("roles.sql", _literal(migrating))
    return made if running is None else f"{made}\n{_sql('login.sql', _identifier(running))}"


async def ensure_roles(connection: Any) -> None:
    """Makes the roles, or finds them made; whoever else makes them at the same moment."""
    login = await connection.fetchval("SELECT current_user")
    for _ in range(_TRIES):
        if await _usable(connection):
            return
        try:
            await connection.execute(roles_sql(login))
        except asyncpg.InsufficientPrivilegeError as error:
            raise SettingsError(
                f"the login {login!r} may not make the roles of the store ({error}). An administrator of the server "
                f"can, with this SQL, which `langlauf migrate --print-roles` prints again:\n\n{roles_sql(login)}"
            ) from error
        except _CLASHES:
            await asyncio.sleep(_PAUSE)
    raise SettingsError(f"the login {login!r} has the roles of the store and cannot use them: ALTER ROLE … INHERIT")


async def _usable(connection: Any) -> bool:
    rows = await connection.fetch(_STATE)
    for row in rows:
        if row["boundless"]:
            raise SettingsError(
                f"the role {row['name']} may bypass row-level security, so it would see every org: "
                f"ALTER ROLE {row['name']} NOSUPERUSER NOBYPASSRLS"
            )
    return len(rows) == _BOTH and all(row["ours"] for row in rows)


async def guard(connection: Any, functions: list[Migration]) -> None:
    """Gives every table its policies and every function its owner."""
    reads = [name for step in functions for name in _FUNCTION.findall(step.sql) if name.startswith(_READ)]
    await connection.execute("SELECT guard_tables()")
    await connection.execute("SELECT guard_functions($1)", reads)


def _sql(name: str, login: str) -> str:
    text = resources.files("langlauf.store.postgres").joinpath(name).read_text("utf-8")
    return text.replace("{{login}}", login)


def _literal(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
