"""Administrative tables in SQLite: API keys, ended sessions, signing secrets, orgs, workers, duties and schedules."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec
from msgspec.structs import asdict

from langlauf.domain.access import ApiKey, HashedKey, KeyChanges
from langlauf.domain.instant import Instant
from langlauf.domain.schedule import Schedule
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
from langlauf.store.sql import json_text, key_from
from langlauf.store.sqlite.batch import StoreComponent
from langlauf.store.sqlite.transaction import Row, Transaction


class SqliteCalls(StoreComponent, StoreCalls):
    """Runs changes as functions of this program, and one that is a single statement by its query."""

    #: functions by name; what is not here is a query that says how many rows it changed
    changes: tuple[Callable[..., Any], ...] = ()
    #: changes after which the writer's cache still holds
    keeps_cache: frozenset[str] = frozenset()

    async def _rows(self, query: str, /, **values: Any) -> list[Any]:
        listed = {name: json_text(value) if isinstance(value, list) else value for name, value in values.items()}
        return await super()._rows(query, **listed)

    async def _call(self, change: str, /, **values: Any) -> Any:
        run = next((one for one in self.changes if one.__name__ == change), partial(_run_query, query=change))
        org_id = values.get("org_id", getattr(values.get("new"), "org_id", None))
        one_org = org_id if isinstance(org_id, str) else None  # changes of many rows come by column
        return await self._change(partial(run, **values), one_org, keeps_cache=change in self.keeps_cache)

    async def _call_rows(self, change: str, /, **values: Any) -> list[Any]:
        return cast("list[Any]", await self._call(change, **values))


def _run_query(tx: Transaction, query: str, **values: Any) -> int:
    return tx.run(query, now=tx.now, **values)


def _by_row(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return values by row that came by column."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# -- access ------------------------------------------------------------------------------------------------------------


def create_key(tx: Transaction, key_id: str, **values: Any) -> list[Row]:
    """Store the key unless its id is taken."""
    made = tx.run("create_key", key_id=key_id, **values, now=tx.now)
    return tx.rows("read_key", key_id=key_id, org_id=None) if made else []


def revoke_key(tx: Transaction, **which: Any) -> list[Row]:
    """Revoke the key unless it is revoked already; nothing is written for an unknown one."""
    if tx.one("read_key", **which) is not None:
        tx.run("revoke_key", **which, now=tx.now)
    return tx.rows("read_key", **which)


def note_key_uses(tx: Transaction, **uses: Sequence[Any]) -> None:
    """Record the latest use of each key."""
    tx.run_many("note_key_use", _by_row(uses))


def end_session(tx: Transaction, **ended: Any) -> None:
    """Record the end, and delete sessions that have expired by now."""
    tx.run("forget_session_ends", now=tx.now)
    tx.run("end_session", **ended)


def keep_secret(tx: Transaction, purpose: str, secret: bytes) -> bytes:
    """Return the stored secret, which is the first one that was offered."""
    tx.run("keep_secret", purpose=purpose, secret=secret, now=tx.now)
    [(kept,)] = tx.rows("kept_secret", purpose=purpose)
    return cast("bytes", kept)


class SqliteAccess(SqliteCalls, AccessStore):
    """API keys, ended sessions and signing secrets."""

    changes = (create_key, revoke_key, note_key_uses, end_session, keep_secret)
    keeps_cache = frozenset({"note_key_uses"})

    async def keys(self, org_id: str | None) -> list[ApiKey]:
        query = "read_all_keys" if org_id is None else "read_keys_of_org"
        return [key_from(row) for row in await self._rows(query, org_id=org_id)]

    async def key_changes(self, after: int) -> KeyChanges:
        rows = await self._rows("key_changes", after=after)
        changed = [HashedKey(key_from(key), secret_hash) for *key, secret_hash, _ in rows]
        return KeyChanges(rows[-1][-1] if rows else after, changed)


# -- orgs --------------------------------------------------------------------------------------------------------------

#: How a table refers to an org: by its id, or by its number.
_OWN = {"org_id": "org_id = :org_id", "org": "org = (SELECT org FROM orgs WHERE org_id = :org_id)"}
#: The rows of a table that may go: no lane in which jobs wait, and no org number that is still in use.
_GOES = {
    "lane_rows": "waiting = 0",
    "orgs": "NOT EXISTS (SELECT 1 FROM job_rows WHERE job_rows.org = orgs.org) "
    "AND NOT EXISTS (SELECT 1 FROM lane_rows WHERE lane_rows.org = orgs.org)",
}


def forget_keys(tx: Transaction, org_id: str) -> int:
    """Revoke keys one by one, since each change of a key has its own version; then erase their names."""
    while tx.run("org_revoke_key", org_id=org_id, now=tx.now):
        pass
    tx.run("org_forget_keys", org_id=org_id)
    return len(tx.rows("read_keys_of_org", org_id=org_id))


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

    changes = (forget_keys, erase_jobs, erase_rows)

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


def save_worker_report(tx: Transaction, kept: int, **report: Any) -> None:
    """Store the report. The table is small, so silent workers are deleted each time."""
    tx.run("save_worker_report", **report, now=tx.now)
    tx.run("forget_silent_workers", before=tx.now - kept)


def save_codes(tx: Transaction, **codes: Sequence[Any]) -> None:
    """Store which code a worker runs, and that it was seen now."""
    tx.run_many("save_code", [{**one, "now": tx.now} for one in _by_row(codes)])


class SqliteWorkers(SqliteCalls, WorkerStore):
    """Workers and their reports."""

    changes = (save_worker_report, save_codes)
    keeps_cache = frozenset({"save_worker_report"})


class SqliteDuties(SqliteCalls, DutyStore):
    """When maintenance duties last succeeded."""

    keeps_cache = frozenset({"record_duty"})


def add_schedule(tx: Transaction, new: Schedule, most: int) -> int:
    """Add a schedule unless the org has one of its name, or too many."""
    return tx.run("add_schedule", **asdict(new), most=most)


def change_schedule(tx: Transaction, new: Schedule, seen_at: Instant) -> int:
    """Replace a schedule unless it has changed since it was seen."""
    return tx.run("change_schedule", **asdict(new), seen_at=seen_at)


def claim_schedules(tx: Transaction, analyses: Sequence[str], held: int, most: int) -> list[Row]:
    """Claim due schedules, and return them as they were."""
    due = tx.rows("due_schedules", now=tx.now, analyses=json_text(analyses), most=most)
    tx.run_many("claim_schedule", [(org_id, name, tx.now + held) for org_id, name, *_ in due])
    return due


def advance_schedules(tx: Transaction, **ends: Sequence[Any]) -> int:
    """Record what became of due runs."""
    return tx.run_many("advance_schedule", _by_row(ends))


class SqliteSchedules(SqliteCalls, ScheduleStore):
    """Schedules of all orgs."""

    changes = (add_schedule, change_schedule, claim_schedules, advance_schedules)
