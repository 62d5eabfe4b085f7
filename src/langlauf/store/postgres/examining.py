"""Examines a database: reads only, whatever its state, each question in a transaction and a time of its own."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from langlauf.clock import SystemClock, monotonic
from langlauf.domain.errors import StoreError, StoreUnavailable
from langlauf.domain.instant import Instant, after
from langlauf.domain.overview import Queue
from langlauf.domain.result import KeptPayloads
from langlauf.store.blobs.owner import Whereabouts
from langlauf.store.migrate import migrations_in
from langlauf.store.postgres.address import read_address
from langlauf.store.postgres.blocking import BlockingConnection, Row
from langlauf.store.postgres.link import CONNECT_SECONDS, connect
from langlauf.store.postgres.migrating import PACKAGE, applied_migrations
from langlauf.store.postgres.opening import OLDEST, shares, whereabouts
from langlauf.store.queries import load
from langlauf.store.tools.inspection import (
    ClockSeen,
    Holder,
    HotTable,
    Kind,
    RightsSeen,
    SchemaSeen,
    ServerSeen,
    SessionSeen,
    SharedExaminer,
    Taken,
)

_VERSION_STEP = 10_000


class PostgresExaminer(SharedExaminer):
    """Looks at one database."""

    kind: Kind = "postgres"

    def __init__(self, url: str, *, seconds: float) -> None:
        self._address = read_address(url)
        self._seconds = seconds
        self._queries = load(PACKAGE, "examining.sql")
        self._connection = BlockingConnection(url)
        #: before anything of ours is set: what the login has by itself
        [[self._synchronous_commit]] = self._catalogue("SHOW synchronous_commit")

    # -- the server ----------------------------------------------------------------------------------------------------

    def server(self) -> ServerSeen:
        [[number, *facts, process]] = self._catalogue(self._queries["server"])
        fsync, pages, standby, read_only, usage, used, reserved, most = facts
        greeted: int = self._connection.connection.get_server_pid()
        return ServerSeen(
            version=number // _VERSION_STEP,
            oldest=OLDEST,
            fsync=fsync,
            full_page_writes=pages,
            synchronous_commit=self._synchronous_commit,
            standby=standby,
            read_only=read_only,
            notify_usage=usage,
            connections=used,
            reserved_connections=reserved,
            most_connections=most,
            pooled=process != greeted,
            shared=self._connection.run(shares(self._connection.connection, self._address, seconds=self._seconds)),
            pooler_expected=self._address.through_pooler,
        )

    def session(self) -> SessionSeen:
        async def ask() -> Any:
            ours = await connect(self._address)
            try:
                return await ours.fetchrow(self._queries["session"], timeout=self._seconds)
            finally:
                await ours.close(timeout=CONNECT_SECONDS)

        return SessionSeen(*self._connection.run(ask()))

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
        return [words for (words,) in self._catalogue(self._queries["damages"])]

    # -- what every store can be asked ---------------------------------------------------------------------------------

    def schema(self) -> SchemaSeen:
        found = self._connection.run(applied_migrations(self._connection.connection))
        known = len(migrations_in(PACKAGE))
        copied = self._call("copied_from")[0][0] if found == known else None
        return SchemaSeen(found, known, copied)

    def changed_objects(self) -> list[str]:
        return [words for (words,) in self._call("changed_objects")]

    def clock(self) -> ClockSeen:
        self._call("moment", None)  # the first question pays for what the next ones have
        asked_at, machine = monotonic(), SystemClock().now()
        [[told]] = self._call("moment", None)
        way = monotonic() - asked_at
        return ClockSeen(told, after(machine, way / 2), way)

    def queues(self, most: int) -> list[Queue]:
        return [Queue(*row) for row in self._call("all_queues", most)]

    def kept_beyond(self, kind: Taken, before: Instant, most: int) -> tuple[int, int]:
        [[looked, kept]] = self._call("kept_beyond", kind, before, most)
        return looked, kept

    def has_keys(self) -> bool:
        return bool(self._call("key_changes", 0))

    def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], KeptPayloads]:
        orgs, ids = [org for org, _ in jobs], [job for _, job in jobs]
        rows = self._call("kept_payloads", orgs, ids)
        return {(org, job): KeptPayloads(ended, frozenset(refs)) for org, job, ended, refs in rows}

    def _ask(self, query: str, /, **values: Any) -> list[Any]:
        return self._call(query, *values.values())

    def _secret(self, purpose: str) -> bytes | None:
        [[secret]] = self._call("kept_secret", purpose)
        return None if secret is None else bytes(secret)

    def _whereabouts(self) -> Whereabouts:
        return self._connection.run(whereabouts(self._connection.connection))

    def interrupt(self) -> None:
        """Nothing to do: every question has its own time."""

    def close(self) -> None:
        self._connection.__exit__(None, None, None)

    def _call(self, function: str, *values: Any) -> list[Row]:
        marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        statement = f"SELECT * FROM {function}({marks})"  # noqa: S608 - the name is one of ours
        with self._connection.transaction(read_only=True):
            return self._fetch(statement, *values)

    def _catalogue(self, statement: str) -> list[Row]:
        """Without a role of ours and without a transaction: it may be asked of any database, in any state."""
        return self._fetch(statement)

    def _fetch(self, statement: str, *values: Any) -> list[Row]:
        fetch = partial(self._connection.connection.fetch, timeout=self._seconds)
        try:
            return [tuple(row) for row in self._connection.run(fetch(statement, *values))]
        except StoreUnavailable:
            raise
        except StoreError as error:
            raise StoreError(str(error).replace("\n", " ")) from error
