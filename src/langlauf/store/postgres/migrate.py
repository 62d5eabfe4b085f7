"""The database: migrations, functions and roles, whether its server can hold a store, its identity and clock.

Each step runs once, under a lock, when several hosts start at the same time. Functions, views and triggers are replaced
whenever their text differs from what is installed.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

import asyncpg

from langlauf.clock import monotonic
from langlauf.domain.errors import SettingsError
from langlauf.domain.instant import SECOND, Instant
from langlauf.store.blobs.owner import StoreIdentity
from langlauf.store.postgres.connection import CONNECT_TIMEOUT, DatabaseConnection, DatabaseUrl, parse_url
from langlauf.store.shared_sql import NAMED, SharedStatement, shared_statements
from langlauf.store.sql import Migration, fill_placeholders, migrations_in, pending_migrations
from langlauf.version import VERSION

PACKAGE = "langlauf.store.postgres"
#: Advisory lock that a migration holds until its transaction ends.
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
_MAY_GRANT = """
SELECT EXISTS (SELECT FROM pg_proc WHERE pronamespace = to_regnamespace('langlauf') AND proname = 'grants_due'
               AND pg_has_role(proowner, 'USAGE'))
"""
_INSTALLED = "SELECT langlauf.installed_functions()"
_INSTALL = """
INSERT INTO installed (only_row, digest, release) VALUES (1, $1, $2)
ON CONFLICT (only_row) DO UPDATE SET digest = excluded.digest, release = excluded.release
"""
#: Functions with this prefix read for one org, and run as the role that sees one org alone.
_READ_PREFIX = "read_"
_FUNCTION = re.compile(r"^CREATE(?: OR REPLACE)? FUNCTION (\w+)", re.MULTILINE)
#: `-- query: name(parameters) RETURNS type`, continued in lines that begin with `--   `, and the query behind it.
_QUERY = re.compile(r"^-- query: (.*\n(?:--   .*\n)*)((?s:.*?));\n", re.MULTILINE)
_SIGNATURE = re.compile(r"(\w+)\((.*?)\) RETURNS (.*)")
#: The file of shared statements: behind the views, whose types they return.
_SHARED = "04_shared"
_ROWS_OF = "rows of "
_PLPGSQL = re.compile(r"^(.*LANGUAGE plpgsql.*\bAS \$\$)$", re.MULTILINE)
_ROLES = """
SELECT rolname AS name, rolsuper OR rolbypassrls AS unrestricted,
    pg_has_role(oid, 'USAGE') AND CASE
        WHEN current_setting('server_version_num')::integer >= 160000
            THEN pg_has_role(oid, 'SET') ELSE true END AS usable
FROM pg_roles WHERE rolname IN ('langlauf_api', 'langlauf_engine')
"""
_BOTH = 2
#: Another database of the server creates the same roles at this moment.
_CONCURRENT = (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError, asyncpg.InternalServerError)
_TRIES = 20
_PAUSE = 0.05


async def applied_migrations(connection: Any) -> int:
    """Return the number of migrations that the database has."""
    if await connection.fetchval("SELECT to_regclass('langlauf.migrations')") is None:
        return 0
    return int(await connection.fetchval("SELECT coalesce(max(number), 0) FROM langlauf.migrations"))


def functions_in(package: str = PACKAGE) -> list[Migration]:
    """Return functions, views and triggers by file, in the order of their numbers; one has the shared statements."""
    files = resources.files(package).joinpath("functions").iterdir()
    found = [(file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in files if file.name.endswith(".sql")]
    found.append((_SHARED, "\n".join(map(_shared_function, shared_statements("postgres").values()))))
    return [Migration(int(name[:2]), name[3:], _expanded(fill_placeholders(sql))) for name, sql in sorted(found)]


def _expanded(sql: str) -> str:
    """Return SQL with a function for each `-- query:`; in all functions a name means a column before a variable."""
    return _PLPGSQL.sub(r"\1\n#variable_conflict use_column", _QUERY.sub(_query_function, sql))


def _query_function(match: re.Match[str]) -> str:
    """Return the function that runs a query; one that reads for an org binds it first, for row-level security."""
    [(name, parameters, result)] = _SIGNATURE.findall(match[1].replace("\n--  ", ""))
    bind_org = ""
    if name.startswith(_READ_PREFIX):
        parameters = ", ".join(filter(None, ["org text", parameters]))
        bind_org = "    PERFORM set_config('langlauf.org_id', org, true);\n"
    returned = f"RETURN QUERY {match[2]}" if result.startswith(("SETOF ", "TABLE ")) else f"RETURN ({match[2]})"
    header = f"CREATE OR REPLACE FUNCTION {name}({parameters}) RETURNS {result} LANGUAGE plpgsql STABLE AS $$"
    return f"{header}\nBEGIN\n{bind_org}    {returned};\nEND $$;\n"


def _shared_function(one: SharedStatement) -> str:
    """Return the function of a shared statement. A change that needs the time has that as its first parameter."""
    types = dict(parameter.split(" ", 1) for parameter in one.parameters.split(", ") if parameter)
    names = [*["org_id"] * one.name.startswith(_READ_PREFIX), *["at"] * one.timed, *types]
    places = {name: f"${place}" for place, name in enumerate(names, 1)} | {"now": "now"}
    steps = [NAMED.sub(lambda value: places[value[1]], step) for step in one.steps]
    parameters = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
    if not one.changes:
        return f"-- query: {one.name}({parameters}) RETURNS {one.returns}\n{steps[0]};\n"
    *before, last = steps
    if one.timed:
        parameters = f"at bigint, {parameters}"
        before.insert(0, "now := moment($1)")
    if one.lock is not None:
        before.insert(0, _lock(one.lock, places))
    if one.gives_rows:
        last = f"RETURN QUERY {last}"
    elif one.returns == "boolean":
        last = f"{last};\nRETURN FOUND"
    elif one.returns != "void":
        last = f"RETURN ({last})"
    header = f"CREATE OR REPLACE FUNCTION {one.name}({parameters}) RETURNS {one.returns} LANGUAGE plpgsql AS $$"
    body = "\n".join(f"    {step};" for step in [*before, last])
    return f"{header}\nDECLARE\n    now bigint;\nBEGIN\n{body}\nEND $$;\n"


def _lock(wanted: str, places: Mapping[str, str]) -> str:
    """Return the statement that takes a lock until the transaction ends."""
    if wanted.startswith(_ROWS_OF):
        rows = NAMED.sub(lambda value: places[value[1]], wanted.removeprefix(_ROWS_OF))
        return f"PERFORM 1 FROM {rows} FOR NO KEY UPDATE OF {rows.partition(' ')[0]}"
    kind, _, whose = wanted.partition(" :")
    key = f"'langlauf {kind} ' || {places[whose]}" if whose else f"'langlauf {kind}'"
    return f"PERFORM pg_advisory_xact_lock(hashtextextended({key}, 0))"


def functions_digest(functions: list[Migration]) -> str:
    """Return a digest of the texts of functions."""
    return hashlib.sha256("\0".join(step.sql for step in functions).encode()).hexdigest()


async def migrate(
    connection: Any, known: list[Migration] | None = None, functions: list[Migration] | None = None
) -> list[str]:
    """Apply what is missing, all of it or nothing; return the names."""
    known = migrations_in(PACKAGE) if known is None else known
    functions = functions_in() if functions is None else functions
    applied = await _applied_or_refused(connection)
    if not pending_migrations(known, applied) and not await _outdated(connection, functions):
        await _grant_to_callers(connection)
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
        # Another host may have migrated while this one waited for the lock.
        done = pending_migrations(known, await applied_migrations(connection))
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
    """Whether the installed functions differ from these and are not those of a later release."""
    if await connection.fetchval("SELECT to_regprocedure('langlauf.installed_functions()')") is None:
        return True
    installed = await connection.fetchval(_INSTALLED)
    if installed is None or installed == f"{VERSION} {functions_digest(functions)}":
        return installed is None
    return _release(installed.partition(" ")[0]) <= _release(VERSION)


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


async def _install(connection: Any, functions: list[Migration]) -> None:
    """Replace all functions, views and triggers, then set policies and owners."""
    await connection.execute("SET LOCAL check_function_bodies = off")
    await connection.execute(resources.files(PACKAGE).joinpath("drop_functions.sql").read_text("utf-8"))
    for step in functions:
        await connection.execute(step.sql)
    await connection.execute(_INSTALL, functions_digest(functions), VERSION)
    reads = [name for step in functions for name in _FUNCTION.findall(step.sql) if name.startswith(_READ_PREFIX)]
    await connection.execute("SELECT guard_tables()")
    await connection.execute("SELECT guard_functions($1)", reads)
    # `verify` compares the schema with what is recorded here.
    await connection.execute("SELECT record_schema()")


async def _applied_or_refused(connection: Any) -> int:
    """Return the schema number; a login without rights is refused with the remedy."""
    try:
        return await applied_migrations(connection)
    except asyncpg.InsufficientPrivilegeError as error:
        login = await connection.fetchval("SELECT current_user")
        raise SettingsError(
            f"the login {login!r} may not use the store ({error}): "
            f"`langlauf migrate --print-roles --login {login}` prints the SQL that lets it in"
        ) from error


async def _grant_to_callers(connection: Any) -> None:
    """Grant the legacy functions to roles of callers that were created since; skipped if this login may not grant."""
    if not await connection.fetchval(_MAY_GRANT):
        return
    if await connection.fetchval("SELECT EXISTS (SELECT FROM langlauf.grants_due())"):
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
            await connection.execute("SELECT langlauf.grant_to_callers()")


def roles_sql(migrating: str, running: str | None = None) -> str:
    """Return the SQL for an administrator: roles for the login that migrates, and rights of one that only runs."""
    made = _role_script("roles.sql", "'" + migrating.replace("'", "''") + "'")
    if running is None:
        return made
    quoted = '"' + running.replace('"', '""') + '"'
    return f"{made}\n{_role_script('login.sql', quoted)}"


def _role_script(name: str, login: str) -> str:
    return resources.files(PACKAGE).joinpath(name).read_text("utf-8").replace("{{login}}", login)


async def ensure_roles(connection: Any) -> None:
    """Create the two roles of the store unless they exist, also when another host creates them at the same moment."""
    login = await connection.fetchval("SELECT current_user")
    for _ in range(_TRIES):
        if await _roles_usable(connection):
            return
        try:
            await connection.execute(roles_sql(login))
        except asyncpg.InsufficientPrivilegeError as error:
            raise SettingsError(
                f"the login {login!r} may not make the roles of the store ({error}). An administrator of the server "
                f"can, with this SQL, which `langlauf migrate --print-roles` prints again:\n\n{roles_sql(login)}"
            ) from error
        except _CONCURRENT:
            await asyncio.sleep(_PAUSE)
    raise SettingsError(f"the login {login!r} has the roles of the store and cannot use them: ALTER ROLE … INHERIT")


async def _roles_usable(connection: Any) -> bool:
    rows = await connection.fetch(_ROLES)
    for row in rows:
        if row["unrestricted"]:
            raise SettingsError(
                f"the role {row['name']} may bypass row-level security, so it would see every org: "
                f"ALTER ROLE {row['name']} NOSUPERUSER NOBYPASSRLS"
            )
    return len(rows) == _BOTH and all(row["usable"] for row in rows)


# -- server ------------------------------------------------------------------------------------------------------------

MIN_VERSION = 15
_ENCODING = "UTF8"
_BACKEND_PID = "SELECT pg_backend_pid()"
_FACTS = """
SELECT current_setting('server_version_num')::integer AS version, current_setting('server_encoding') AS encoding,
    pg_is_in_recovery() AS standby, current_setting('transaction_read_only')::boolean AS read_only,
    pg_backend_pid() AS backend_pid, current_database() AS database
"""
_IDENTITY = """
SELECT system_identifier AS server, oid AS number, datname AS name
FROM pg_control_system(), pg_database WHERE datname = current_database()
"""
#: A round trip that is slower by this factor gives no better time than the known one.
_WORSE = 1.5
#: The known offset gets less reliable with time: after a minute a round trip twice as slow is accepted.
_DECAY_PER_SECOND = 1 / 60


class ConnectedServer(NamedTuple):
    """What a server reports about itself. `connected_pid` is the process that answered when the connection was made."""

    version: int
    encoding: str
    standby: bool
    backend_pid: int
    connected_pid: int
    database: str
    read_only: bool = False


def server_problem(server: ConnectedServer, *, through_pooler: bool) -> str | None:
    """Return why a server cannot hold a store, and what to do; None if it can."""
    major = server.version // 10_000
    if major < MIN_VERSION:
        return f"this is PostgreSQL {major}: PostgreSQL {MIN_VERSION} or later is needed"
    if server.encoding != _ENCODING:
        return (
            f"the database {server.database!r} has the encoding {server.encoding}: jobs hold any text, "
            f"so make it with CREATE DATABASE … ENCODING '{_ENCODING}' TEMPLATE template0"
        )
    if server.standby:
        return (
            "this server is a standby, which only reads: name the primary, "
            "or all servers and target_session_attrs=primary in the URL"
        )
    if server.read_only:
        return (
            "transactions of this login only read: ALTER ROLE or ALTER DATABASE … RESET default_transaction_read_only, "
            "or name another login"
        )
    if server.backend_pid != server.connected_pid and not through_pooler:
        return (
            "there is a pooler between this program and the server. One that changes connections between transactions "
            "loses settings and notifications: connect to the server itself, or to a pooler in session mode and say so "
            "with ?pooler=session in the URL"
        )
    return None


async def prepare(connection: Any, url: DatabaseUrl) -> list[str]:
    """Check that a database can hold a store, and migrate it; return what was applied."""
    row = await connection.fetchrow(_FACTS)
    facts = ConnectedServer(**row, connected_pid=connection.get_server_pid())
    if (problem := server_problem(facts, through_pooler=url.through_pooler)) is not None:
        raise SettingsError(problem)
    if url.through_pooler and await pooler_shares(connection, url):
        raise SettingsError(
            "the pooler gave one connection of the server to two of ours, so it is not in session mode: "
            "set its mode to session for this database, or connect to the server itself"
        )
    done = await migrate(connection)
    # Events restored from the dump of another database get their places in the feed by time.
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute("SELECT langlauf.clear_foreign_marks()")
    return done


async def pooler_shares(connection: Any, url: DatabaseUrl, *, seconds: float | None = None) -> bool:
    """Whether a second connection is answered by the server process of the first."""
    second = await asyncpg.connect(url.dsn, timeout=CONNECT_TIMEOUT)
    try:
        other_pid = await second.fetchval(_BACKEND_PID, timeout=seconds)
        return bool(other_pid == await connection.fetchval(_BACKEND_PID, timeout=seconds))
    finally:
        await second.close(timeout=CONNECT_TIMEOUT)


async def identity(connection: Any) -> StoreIdentity:
    """Return the identity of a database, which does not depend on the name by which a host reaches it."""
    row = await connection.fetchrow(_IDENTITY)
    number = f"{row['server']}/{row['number']}"
    return StoreIdentity(f"database {row['name']} ({number})", number)


async def migrate_database(url: str) -> tuple[int, list[str]]:
    """Migrate a database; return its schema number and what was applied."""
    connection = DatabaseConnection(url, "migrate")

    async def work(raw: Any) -> tuple[int, list[str]]:
        done = await prepare(raw, parse_url(url))
        return await applied_migrations(raw), done

    try:
        return await connection.use(work)
    finally:
        await connection.close()


class DatabaseClock:
    """The database's time, computed from this host's monotonic clock and a learned offset.

    Hosts whose own clocks are wrong still agree. It must learn the offset once before it is read.
    """

    def __init__(self) -> None:
        self._offset = 0
        self._round_trip = float("inf")
        self._learned_at = 0.0

    def now(self) -> Instant:
        """Return microseconds since 1970 in UTC by the database's clock."""
        return round(monotonic() * SECOND) + self._offset

    def learn(self, database_time: Instant, sent_at: float, received_at: float) -> None:
        """Take over a time that the database returned, if it is more reliable than the known offset or far from it."""
        round_trip = received_at - sent_at
        offset = database_time - round((sent_at + received_at) / 2 * SECOND)
        known = self._round_trip * (1 + (received_at - self._learned_at) * _DECAY_PER_SECOND)
        if round_trip <= known * _WORSE or abs(offset - self._offset) > round_trip * SECOND:
            self._offset, self._round_trip, self._learned_at = offset, round_trip, received_at
