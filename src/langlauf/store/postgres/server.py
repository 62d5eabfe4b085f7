"""The database server: whether it can hold a store, its identity and its clock."""

from typing import Any, NamedTuple

import asyncpg

from langlauf.clock import monotonic
from langlauf.domain.errors import SettingsError
from langlauf.domain.instant import SECOND, Instant
from langlauf.store.blobs.owner import StoreIdentity
from langlauf.store.postgres.connection import CONNECT_TIMEOUT, DatabaseConnection, DatabaseUrl, parse_url
from langlauf.store.postgres.migrate import applied_migrations, migrate

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
