"""An org as a whole, in SQLite. What is removed is overwritten, so that nothing of it can be read from the file."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import apsw
import msgspec

from langlauf.store.orgs import KEYS
from langlauf.store.sqlite.lists import RunRead
from langlauf.store.sqlite.transaction import Row, Transaction

#: The names that people know the narrow tables by.
KNOWN_AS = {
    "job_rows": "jobs",
    "event_rows": "job_events",
    "result_rows": "job_results",
    "chunk_rows": "job_chunks",
    "key_rows": "idempotency_keys",
    "lane_rows": "lanes",
    "outbox": "notifications",
}
#: How a table names an org: by its name, or by the number that stands for it.
_OWN = {"org_id": "org_id = :org_id", "org": "org = (SELECT org FROM orgs WHERE org_id = :org_id)"}
#: What of a table goes: no lane in which a job waits, and no number of an org under which something still is.
_GOES = {
    "lane_rows": "waiting = 0",
    "orgs": "NOT EXISTS (SELECT 1 FROM job_rows WHERE job_rows.org = orgs.org) "
    "AND NOT EXISTS (SELECT 1 FROM lane_rows WHERE lane_rows.org = orgs.org)",
}


class ForgetKeys(msgspec.Struct, frozen=True):
    """Keys to end, and to leave without a name."""

    org_id: str


class RemoveJobs(msgspec.Struct, frozen=True):
    """Some jobs of an org to take away."""

    org_id: str
    limit: int
    with_held: bool
    forced: bool


class RemoveRows(msgspec.Struct, frozen=True):
    """Some rows of an org to take out of a table."""

    org_id: str
    table: str
    limit: int


def forget_keys(tx: Transaction, wish: ForgetKeys) -> int:
    """Revokes them one by one: each change of a key has a number of its own."""
    while tx.run("org_revoke_key", org_id=wish.org_id, now=tx.now):
        pass
    tx.run("org_forget_keys", org_id=wish.org_id)
    return len(tx.rows("read_keys_of_org", org_id=wish.org_id))


def remove_jobs(tx: Transaction, wish: RemoveJobs) -> int:
    """Those that have ended, or those that a worker has, which then run no more."""
    _overwrite(tx)
    which = {"org_id": wish.org_id, "with_held": wish.with_held, "limit": wish.limit}
    if not wish.forced:
        return tx.run("org_remove_ended", **which)
    removed = tx.rows("org_remove_leased", **which)
    for (analysis,) in removed:
        tx.running(analysis, -1)
    return len(removed)


def remove_rows(tx: Transaction, wish: RemoveRows) -> int:
    """What other tables have, by the key of each."""
    tables = {KNOWN_AS.get(name, name): (name, own, key) for name, own, key in tx.rows("org_tables")}
    if wish.table == KEYS or wish.table not in tables:
        return 0
    _overwrite(tx)
    table, own, key = tables[wish.table]
    sql = tx.query("org_remove_rows").format(
        table=_quoted(table),
        key=", ".join(map(_quoted, msgspec.json.decode(key, type=list[str]))),
        own=_OWN[own],
        goes=_GOES.get(table, "true"),
    )
    tx.connection.execute(sql, {"org_id": wish.org_id, "limit": wish.limit})
    return tx.connection.changes()


HANDLERS: dict[type, Callable[[Transaction, Any], Any]] = {
    ForgetKeys: forget_keys,
    RemoveJobs: remove_jobs,
    RemoveRows: remove_rows,
}


class SqliteOrgs:
    """Orgs, over the connections of a store. `write` lets everybody else go first."""

    def __init__(self, read: RunRead, write: Callable[[Any], Awaitable[Any]], queries: Mapping[str, str]) -> None:
        self._read = read
        self._write = write
        self._queries = queries

    async def rows(self, org_id: str) -> dict[str, int]:
        tables: list[tuple[str, str, str]] = sorted(
            (KNOWN_AS.get(str(name), str(name)), str(name), str(own))
            for name, own, _ in await self._found("org_tables")
        )
        return {known: await self._count(name, own, org_id) for known, name, own in tables}

    async def _count(self, table: str, own: str, org_id: str) -> int:
        sql = self._queries["org_count"].format(table=_quoted(table), own=_OWN[own])
        [(count,)] = await self._read(lambda connection: connection.execute(sql, {"org_id": org_id}).fetchall())
        return cast("int", count)

    async def held(self, org_id: str) -> int:
        [(count,)] = await self._found("org_held", org_id=org_id)
        return cast("int", count)

    async def unended(self, org_id: str, limit: int) -> list[str]:
        return [job_id for (job_id,) in await self._found("org_unended", org_id=org_id, limit=limit)]

    async def forget_keys(self, org_id: str) -> int:
        return cast("int", await self._write(ForgetKeys(org_id)))

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        return cast("int", await self._write(RemoveJobs(org_id, limit, with_held, forced)))

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        return cast("int", await self._write(RemoveRows(org_id, table, limit)))

    async def _found(self, query: str, /, **values: Any) -> list[Row]:
        def read(connection: apsw.Connection) -> list[Row]:
            return connection.execute(self._queries[query], values).fetchall()

        return await self._read(read)


def _overwrite(tx: Transaction) -> None:
    tx.connection.pragma("secure_delete", True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
