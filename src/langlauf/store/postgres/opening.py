"""What is asked of a database before it is used; one that cannot hold a store is refused by name."""

from typing import Any, NamedTuple

import asyncpg

from langlauf.domain.errors import SettingsError
from langlauf.store.blobs.owner import Whereabouts
from langlauf.store.postgres.address import Address, read_address
from langlauf.store.postgres.link import CONNECT_SECONDS, Link
from langlauf.store.postgres.migrating import applied_migrations, migrate

OLDEST = 15
_ENCODING = "UTF8"
_PROCESS = "SELECT pg_backend_pid()"
_FACTS = """
SELECT current_setting('server_version_num')::integer AS version, current_setting('server_encoding') AS encoding,
    pg_is_in_recovery() AS standby, current_setting('transaction_read_only')::boolean AS read_only,
    pg_backend_pid() AS process, current_database() AS database
"""


_WHERE = """
SELECT system_identifier AS server, oid AS number, datname AS name
FROM pg_control_system(), pg_database WHERE datname = current_database()
"""


class Server(NamedTuple):
    """What a server says of itself. `greeted_as` is the process that answered when the connection was made."""

    version: int
    encoding: str
    standby: bool
    process: int
    greeted_as: int
    database: str
    read_only: bool = False


def refusal(server: Server, *, through_pooler: bool) -> str | None:
    """Why a server cannot hold a store, and what to do; None where it can."""
    major = server.version // 10_000
    if major < OLDEST:
        return f"this is PostgreSQL {major}: PostgreSQL {OLDEST} or later is needed"
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
    if server.process != server.greeted_as and not through_pooler:
        return (
            "there is a pooler between this program and the server. One that changes connections between transactions "
            "loses settings and notifications: connect to the server itself, or to a pooler in session mode and say so "
            "with ?pooler=session in the URL"
        )
    return None


async def prepare(connection: Any, address: Address) -> list[str]:
    """Checks that a database can hold a store, and brings its schema up to date; returns what was applied."""
    row = await connection.fetchrow(_FACTS)
    facts = Server(
        version=row["version"],
        encoding=row["encoding"],
        standby=row["standby"],
        process=row["process"],
        greeted_as=connection.get_server_pid(),
        database=row["database"],
        read_only=row["read_only"],
    )
    if (reason := refusal(facts, through_pooler=address.through_pooler)) is not None:
        raise SettingsError(reason)
    if address.through_pooler and await shares(connection, address):
        raise SettingsError(
            "the pooler gave one connection of the server to two of ours, so it is not in session mode: "
            "set its mode to session for this database, or connect to the server itself"
        )
    done = await migrate(connection)
    await _settle_feed(connection)
    return done


async def _settle_feed(connection: Any) -> None:
    """Events that were read in from the dump of another database take their places in the feed by their times."""
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute("SELECT langlauf.settle_feed()")


async def shares(connection: Any, address: Address, *, seconds: float | None = None) -> bool:
    """Whether a second connection of ours is answered by the process that should be kept for the first."""
    second = await asyncpg.connect(address.dsn, timeout=CONNECT_SECONDS)
    try:
        theirs = await second.fetchval(_PROCESS, timeout=seconds)
        return bool(theirs == await connection.fetchval(_PROCESS, timeout=seconds))
    finally:
        await second.close(timeout=CONNECT_SECONDS)


async def whereabouts(connection: Any) -> Whereabouts:
    """Where a database is: not what this program calls its server, which other hosts may call otherwise."""
    row = await connection.fetchrow(_WHERE)
    number = f"{row['server']}/{row['number']}"
    return Whereabouts(f"database {row['name']} ({number})", number)


async def migrate_database(url: str) -> tuple[int, list[str]]:
    """Brings a database up to date; returns its schema and what was applied."""
    link = Link(url, "migrate")

    async def work(connection: Any) -> tuple[int, list[str]]:
        done = await prepare(connection, read_address(url))
        return await applied_migrations(connection), done

    try:
        return await link.use(work)
    finally:
        await link.close()
