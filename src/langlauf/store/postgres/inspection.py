"""Inspects a database for `doctor`: read-only, in any state, each query in its own transaction with a timeout."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from langlauf.clock import SystemClock, monotonic
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import after
from langlauf.domain.result import ReferencedPayloads
from langlauf.store.blobs.owner import StoreIdentity
from langlauf.store.postgres.blocking_connection import BlockingConnection, Row
from langlauf.store.postgres.connection import CONNECT_TIMEOUT, call_sql, connect, parse_url
from langlauf.store.postgres.migrate import MIN_VERSION, PACKAGE, applied_migrations, identity, pooler_shares
from langlauf.store.sql import load_queries, migrations_in
from langlauf.store.tools.inspection import (
    ClockFacts,
    Holder,
    HotTable,
    Kind,
    RightsSeen,
    SchemaFacts,
    ServerFacts,
    ServerInspector,
    SessionSeen,
)

#: `server_version_num` of PostgreSQL 15.4 is 150004.
_VERSION_STEP = 10_000


class PostgresInspector(ServerInspector):
    """Inspects one database."""

    kind: Kind = "postgres"

    def __init__(self, url: str, *, seconds: float) -> None:
        self._url = parse_url(url)
        self._seconds = seconds
        self._queries = load_queries(PACKAGE, "inspection.sql")
        self._connection = BlockingConnection(url)
        #: read before any setting of this program: the default of the login
        [[self._synchronous_commit]] = self._catalogue("SHOW synchronous_commit")

    # -- the server ----------------------------------------------------------------------------------------------------

    def server(self) -> ServerFacts:
        [[number, *facts, pid]] = self._catalogue(self._queries["server"])
        fsync, pages, standby, read_only, usage, used, reserved, most = facts
        connected_pid: int = self._connection.connection.get_server_pid()
        return ServerFacts(
            version=number // _VERSION_STEP,
            oldest=MIN_VERSION,
            fsync=fsync,
            full_page_writes=pages,
            synchronous_commit=self._synchronous_commit,
            standby=standby,
            read_only=read_only,
            notify_usage=usage,
            connections=used,
            reserved_connections=reserved,
            most_connections=most,
            pooled=pid != connected_pid,
            shared=self._connection.run(pooler_shares(self._connection.connection, self._url, seconds=self._seconds)),
            pooler_expected=self._url.through_pooler,
        )

    def session(self) -> SessionSeen:
        async def fetch() -> Any:
            connection = await connect(self._url)
            try:
                return await connection.fetchrow(self._queries["session"], timeout=self._seconds)
            finally:
                await connection.close(timeout=CONNECT_TIMEOUT)

        return SessionSeen(*self._connection.run(fetch()))

    def rights(self) -> RightsSeen:
        def names(query: str) -> list[str]:
            return [name for (name,) in self._catalogue(self._queries[query])]

        return RightsSeen(
            missing_roles=names("missing_roles"),
            boundless_roles=names("boundless_roles"),
            unguarded_tables=names("unguarded_tables"),
            open_to_all=names("open_to_all"),
        )

    def hot_tables(self) -> list[HotTable]:
        return [HotTable(*row) for row in self._catalogue(self._queries["hot_tables"])]

    def holders(self) -> list[Holder]:
        return [Holder(*row) for row in self._catalogue(self._queries["holders"])]

    def damages(self) -> list[str]:
        return [text for (text,) in self._catalogue(self._queries["damages"])]

    # -- both stores ---------------------------------------------------------------------------------------------------

    def schema(self) -> SchemaFacts:
        found = self._connection.run(applied_migrations(self._connection.connection))
        known = len(migrations_in(PACKAGE))
        copied = self._call("copied_from")[0][0] if found == known else None
        return SchemaFacts(found, known, copied)

    def changed_objects(self) -> list[str]:
        return [text for (text,) in self._call("changed_objects")]

    def clock(self) -> ClockFacts:
        self._call("moment", None)  # warm up: the first call plans the function
        sent_at, machine = monotonic(), SystemClock().now()
        [[database_time]] = self._call("moment", None)
        round_trip = monotonic() - sent_at
        return ClockFacts(database_time, after(machine, round_trip / 2), round_trip)

    def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], ReferencedPayloads]:
        orgs, ids = [org for org, _ in jobs], [job for _, job in jobs]
        rows = self._call("kept_payloads", orgs, ids)
        return {(org, job): ReferencedPayloads(ended, frozenset(refs)) for org, job, ended, refs in rows}

    def _ask(self, query: str, /, **values: Any) -> list[Any]:
        return self._call(query, *values.values())

    def _identity(self) -> StoreIdentity:
        return self._connection.run(identity(self._connection.connection))

    def interrupt(self) -> None:
        """Nothing to do: every query has its own timeout."""

    def close(self) -> None:
        self._connection.__exit__(None, None, None)

    def _call(self, function: str, *values: Any) -> list[Row]:
        statement = f"SELECT * FROM {call_sql(function, len(values))}"  # noqa: S608 - the name is one of ours
        with self._connection.transaction(read_only=True):
            return self._fetch(statement, *values)

    def _catalogue(self, statement: str) -> list[Row]:
        """Query the catalogue without a role or a transaction, which works on any database in any state."""
        return self._fetch(statement)

    def _fetch(self, statement: str, *values: Any) -> list[Row]:
        fetch = partial(self._connection.connection.fetch, timeout=self._seconds)
        try:
            return [tuple(row) for row in self._connection.run(fetch(statement, *values))]
        except StoreUnavailable:
            raise
        except StoreError as error:
            raise StoreError(str(error).replace("\n", " ")) from error
