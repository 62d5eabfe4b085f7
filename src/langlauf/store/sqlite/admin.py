"""Administrative tables in SQLite: API keys, ended sessions, signing secrets, orgs, workers, duties and schedules."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from langlauf.store.admin import (
    KEYS,
    KNOWN_AS,
    AccessStore,
    DutyStore,
    OrgStore,
    ScheduleStore,
    StoreCalls,
    WorkerStore,
)
from langlauf.store.sql import json_text
from langlauf.store.sqlite.batch import Change
from langlauf.store.sqlite.connection import RunRead
from langlauf.store.sqlite.transaction import Transaction


class SqliteCalls(StoreCalls):
    """Runs changes as functions of this program, or as statements that both databases share."""

    #: functions by name; what is not here is a shared statement
    changes: tuple[Callable[..., Any], ...] = ()
    #: changes after which the writer's cache still holds
    keeps_cache: frozenset[str] = frozenset()

    def __init__(self, read: RunRead, write: Callable[[Any], Awaitable[Any]], queries: Mapping[str, str]) -> None:
        self._read = read
        self._write = write
        self._queries = queries

    async def _rows(self, query: str, /, **values: Any) -> list[Any]:
        listed = {name: json_text(value) if isinstance(value, list) else value for name, value in values.items()}
        return await self._read(lambda connection: connection.execute(self._queries[query], listed).fetchall())

    async def _call(self, change: str, /, **values: Any) -> Any:
        own = next((one for one in self.changes if one.__name__ == change), None)

        def run(tx: Transaction) -> Any:
            return tx.change(change, **values) if own is None else own(tx, **values)

        return await self._write(Change(run, values.get("org_id"), keeps_cache=change in self.keeps_cache))


# -- access ------------------------------------------------------------------------------------------------------------


class SqliteAccess(SqliteCalls, AccessStore):
    """API keys, ended sessions and signing secrets."""

    keeps_cache = frozenset({"note_key_uses"})


# -- orgs --------------------------------------------------------------------------------------------------------------

#: How a table refers to an org: by its id, or by its number.
_OWN = {"org_id": "org_id = :org_id", "org": "org = (SELECT org FROM orgs WHERE org_id = :org_id)"}
#: The rows of a table that may go: no lane in which jobs wait, and no org number that is still in use.
_GOES = {
    "lane_rows": "waiting = 0",
    "orgs": "NOT EXISTS (SELECT 1 FROM job_rows WHERE job_rows.org = orgs.org) "
    "AND NOT EXISTS (SELECT 1 FROM lane_rows WHERE lane_rows.org = orgs.org)",
}


def erase_jobs(tx: Transaction, *, forced: bool, **which: Any) -> int:
    """Delete ended jobs or, with `forced`, leased ones, whose workers then lose their lease."""
    _overwrite(tx)
    if not forced:
        return tx.run("org_remove_ended", **which)
    removed = tx.rows("org_remove_leased", **which)
    for (analysis,) in removed:
        tx.running(analysis, -1)
    return len(removed)


def erase_rows(tx: Transaction, org_id: str, table: str, limit: int) -> int:
    """Delete rows of another table by its key."""
    tables = {KNOWN_AS.get(name, name): (name, own, key) for name, own, key in tx.rows("org_tables")}
    if table == KEYS or table not in tables:
        return 0
    _overwrite(tx)
    name, own, key = tables[table]
    sql = tx.query("org_remove_rows").format(
        table=_quoted(name),
        key=", ".join(map(_quoted, msgspec.json.decode(key, type=list[str]))),
        own=_OWN[own],
        goes=_GOES.get(name, "true"),
    )
    tx.connection.execute(sql, {"org_id": org_id, "limit": limit})
    return tx.connection.changes()


class SqliteOrgs(SqliteCalls, OrgStore):
    """Orgs. `write` yields to all other writes. Deleted rows are overwritten, so that the file does not hold them."""

    changes = (erase_jobs, erase_rows)

    async def rows(self, org_id: str) -> dict[str, int]:
        tables: list[tuple[str, str, str]] = sorted(
            (KNOWN_AS.get(str(name), str(name)), str(name), str(own)) for name, own, _ in await self._rows("org_tables")
        )
        return {known: await self._count(name, own, org_id) for known, name, own in tables}

    async def _count(self, table: str, own: str, org_id: str) -> int:
        sql = self._queries["org_count"].format(table=_quoted(table), own=_OWN[own])
        [(count,)] = await self._read(lambda connection: connection.execute(sql, {"org_id": org_id}).fetchall())
        return cast("int", count)

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        return int(await self._call("erase_rows", org_id=org_id, table=table, limit=limit))


def _overwrite(tx: Transaction) -> None:
    tx.connection.pragma("secure_delete", True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# -- workers, duties and schedules -------------------------------------------------------------------------------------


class SqliteWorkers(SqliteCalls, WorkerStore):
    """Workers and their reports."""

    keeps_cache = frozenset({"save_worker_report"})


class SqliteDuties(SqliteCalls, DutyStore):
    """When maintenance duties last succeeded."""

    keeps_cache = frozenset({"record_duty"})


class SqliteSchedules(SqliteCalls, ScheduleStore):
    """Schedules of all orgs."""
