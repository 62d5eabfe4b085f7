"""Administrative tables in SQLite: API keys, ended sessions, signing secrets, orgs, workers, duties and schedules."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, cast

import msgspec
from msgspec.structs import asdict

from langlauf.clock import new_secret
from langlauf.domain.access import ApiKey, HashedKey, KeyChanges
from langlauf.domain.health import SILENT_KEPT_SECONDS, DutySuccess, WorkerReport, WorkerStatus
from langlauf.domain.instant import Instant, after
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.schedule import MOST_SCHEDULES, PlannedRun, Schedule, ScheduleEnd
from langlauf.store.admin_protocol import KEYS, KNOWN_AS, RecordOwner, SessionEnd, worker_from, worker_values
from langlauf.store.sql import json_text, key_from, schedule_from, scopes_text
from langlauf.store.sqlite.batch import StoreComponent
from langlauf.store.sqlite.transaction import Transaction

_COLUMNS = len(ApiKey.__struct_fields__)
_FIND = {"job": "find_job", "result": "find_result"}


def create_key(tx: Transaction, new: HashedKey) -> ApiKey | None:
    """Store the key unless its id is taken."""
    key = new.key
    made = tx.run(
        "create_key",
        key_id=key.key_id,
        org_id=key.org_id,
        name=key.name,
        secret_hash=new.secret_hash,
        scopes=scopes_text(key.scopes),
        expires_at=key.expires_at,
        now=tx.now,
    )
    return _one(tx, key.key_id, None) if made else None


def revoke_key(tx: Transaction, key_id: str, org_id: str | None) -> ApiKey | None:
    """Revoke the key unless it is revoked already; nothing is written for an unknown one."""
    if _one(tx, key_id, org_id) is None:
        return None
    tx.run("revoke_key", key_id=key_id, org_id=org_id, now=tx.now)
    return _one(tx, key_id, org_id)


def note_key_uses(tx: Transaction, uses: Mapping[str, Instant]) -> None:
    """Record the latest use of each key."""
    tx.run_many("note_key_use", [{"key_id": key_id, "at": at} for key_id, at in uses.items()])


def end_session(tx: Transaction, session_id: str, expires_at: Instant) -> None:
    """Record the end, and delete sessions that have expired by now."""
    tx.run("forget_session_ends", now=tx.now)
    tx.run("end_session", session_id=session_id, expires_at=expires_at)


def keep_secret(tx: Transaction, purpose: str, secret: bytes) -> bytes:
    """Return the stored secret, which is the first one that was offered."""
    tx.run("keep_secret", purpose=purpose, secret=secret, now=tx.now)
    [(kept,)] = tx.rows("read_secret", purpose=purpose)
    return cast("bytes", kept)


class SqliteAccess(StoreComponent):
    """API keys, ended sessions and signing secrets."""

    async def create_key(self, new: HashedKey) -> ApiKey | None:
        return await self._change(partial(create_key, new=new))

    async def revoke_key(self, key_id: str, *, org_id: str | None) -> ApiKey | None:
        return await self._change(partial(revoke_key, key_id=key_id, org_id=org_id), org_id)

    async def keys(self, org_id: str | None) -> list[ApiKey]:
        query = "read_all_keys" if org_id is None else "read_keys_of_org"
        return [key_from(row) for row in await self._rows(query, org_id=org_id)]

    async def key_changes(self, after: int) -> KeyChanges:
        rows = await self._rows("read_key_changes", after=after)
        changed = [HashedKey(key_from(row[:_COLUMNS]), row[_COLUMNS]) for row in rows]
        return KeyChanges(rows[-1][-1] if rows else after, changed)

    async def note_key_uses(self, uses: Mapping[str, Instant]) -> None:
        await self._change(partial(note_key_uses, uses=uses), keeps_cache=True)

    async def signing_secret(self, purpose: str) -> bytes:
        return await self._change(partial(keep_secret, purpose=purpose, secret=new_secret()))

    async def end_session(self, session_id: str, expires_at: Instant) -> None:
        await self._change(partial(end_session, session_id=session_id, expires_at=expires_at))

    async def session_ends(self, after: int) -> list[SessionEnd]:
        return [SessionEnd(*row) for row in await self._rows("read_session_ends", after=after)]

    async def find(self, kind: Literal["job", "result"], record_id: str) -> RecordOwner | None:
        rows = await self._rows(_FIND[kind], id=record_id)
        return RecordOwner(*rows[0]) if len(rows) == 1 else None


def _one(tx: Transaction, key_id: str, org_id: str | None) -> ApiKey | None:
    row = tx.one("read_key", key_id=key_id, org_id=org_id)
    return None if row is None else key_from(row)


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


def remove_jobs(tx: Transaction, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
    """Delete ended jobs or, with `forced`, leased ones, whose workers then lose their lease."""
    _overwrite(tx)
    which = {"org_id": org_id, "with_held": with_held, "limit": limit}
    if not forced:
        return tx.run("org_remove_ended", **which)
    removed = tx.rows("org_remove_leased", **which)
    for (analysis,) in removed:
        tx.running(analysis, -1)
    return len(removed)


def remove_rows(tx: Transaction, org_id: str, known_as: str, limit: int) -> int:
    """Delete rows of another table by its key."""
    tables = {KNOWN_AS.get(name, name): (name, own, key) for name, own, key in tx.rows("org_tables")}
    if known_as == KEYS or known_as not in tables:
        return 0
    _overwrite(tx)
    table, own, key = tables[known_as]
    sql = tx.query("org_remove_rows").format(
        table=_quoted(table),
        key=", ".join(map(_quoted, msgspec.json.decode(key, type=list[str]))),
        own=_OWN[own],
        goes=_GOES.get(table, "true"),
    )
    tx.connection.execute(sql, {"org_id": org_id, "limit": limit})
    return tx.connection.changes()


class SqliteOrgs(StoreComponent):
    """Orgs. `write` yields to all other writes. Deleted rows are overwritten, so that the file does not hold them."""

    async def rows(self, org_id: str) -> dict[str, int]:
        tables: list[tuple[str, str, str]] = sorted(
            (KNOWN_AS.get(str(name), str(name)), str(name), str(own)) for name, own, _ in await self._rows("org_tables")
        )
        return {known: await self._count(name, own, org_id) for known, name, own in tables}

    async def _count(self, table: str, own: str, org_id: str) -> int:
        sql = self._queries["org_count"].format(table=_quoted(table), own=_OWN[own])
        [(count,)] = await self._read(lambda connection: connection.execute(sql, {"org_id": org_id}).fetchall())
        return cast("int", count)

    async def held(self, org_id: str) -> int:
        [(count,)] = await self._rows("org_held", org_id=org_id)
        return cast("int", count)

    async def unended(self, org_id: str, limit: int) -> list[str]:
        return [job_id for (job_id,) in await self._rows("org_unended", org_id=org_id, limit=limit)]

    async def forget_keys(self, org_id: str) -> int:
        return await self._change(partial(forget_keys, org_id=org_id), org_id)

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        which = partial(remove_jobs, org_id=org_id, limit=limit, with_held=with_held, forced=forced)
        return await self._change(which, org_id)

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        return await self._change(partial(remove_rows, org_id=org_id, known_as=table, limit=limit), org_id)


def _overwrite(tx: Transaction) -> None:
    tx.connection.pragma("secure_delete", True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def note_worker(tx: Transaction, report: WorkerReport) -> None:
    """Store the report. The table is small, so silent workers are deleted each time."""
    tx.run("note_worker", now=tx.now, **worker_values(report))
    tx.run("forget_silent_workers", before=after(tx.now, -SILENT_KEPT_SECONDS))


def save_codes(tx: Transaction, codes: Sequence[CodeVersion]) -> None:
    """Store which code a worker runs, and that it was seen now."""
    tx.run_many("save_code", [{"code": one.key, "now": tx.now, **msgspec.structs.asdict(one)} for one in codes])


def forget_worker(tx: Transaction, worker_id: str) -> None:
    """Delete the row of a worker."""
    tx.run("forget_worker", worker_id=worker_id)


class SqliteWorkers(StoreComponent):
    """Workers and their reports."""

    async def save_report(self, report: WorkerReport) -> None:
        await self._change(partial(note_worker, report=report), keeps_cache=True)

    async def remove(self, worker_id: str) -> None:
        await self._change(partial(forget_worker, worker_id=worker_id))

    async def code(self, key: int) -> CodeVersion | None:
        rows = await self._rows("read_code", code=key)
        return CodeVersion(**dict(zip(CodeVersion.__struct_fields__, rows[0], strict=True))) if rows else None

    async def save_codes(self, codes: Sequence[CodeVersion]) -> None:
        await self._change(partial(save_codes, codes=codes))

    async def statuses(self) -> list[WorkerStatus]:
        return [worker_from(row) for row in await self._rows("all_workers")]


class SqliteDuties(StoreComponent):
    """When maintenance duties last succeeded."""

    async def record_success(self, name: str, host: str) -> None:
        await self._change(lambda tx: tx.run("note_duty", now=tx.now, name=name, host=host), keeps_cache=True)

    async def successes(self) -> list[DutySuccess]:
        return [DutySuccess(*row) for row in await self._rows("all_duties")]


# -- schedules ---------------------------------------------------------------------------------------------------------


def _add_schedule(tx: Transaction, new: Schedule) -> bool:
    return tx.run("add_schedule", **asdict(new), most=MOST_SCHEDULES) > 0


def _change_schedule(tx: Transaction, changed: Schedule, seen_at: Instant) -> bool:
    return tx.run("change_schedule", **asdict(changed), seen_at=seen_at) > 0


def _remove_schedule(tx: Transaction, org_id: str, name: str) -> bool:
    return tx.run("remove_schedule", org_id=org_id, name=name) > 0


def _claim_due(tx: Transaction, analyses: Sequence[str], seconds: float, most: int) -> list[Schedule]:
    due = [schedule_from(row) for row in tx.rows("due_schedules", now=tx.now, analyses=json_text(analyses), most=most)]
    tx.run_many("claim_schedule", [(one.org_id, one.name, after(tx.now, seconds)) for one in due])
    return due


def _advance_schedule(tx: Transaction, ends: Sequence[ScheduleEnd]) -> int:
    return tx.run_many("advance_schedule", [asdict(one) for one in ends])


class SqliteSchedules(StoreComponent):
    """Schedules of all orgs."""

    async def add(self, new: Schedule) -> bool:
        return await self._change(partial(_add_schedule, new=new), new.org_id)

    async def change(self, changed: Schedule, *, seen_at: Instant) -> bool:
        return await self._change(partial(_change_schedule, changed=changed, seen_at=seen_at), changed.org_id)

    async def remove(self, org_id: str, name: str) -> bool:
        return await self._change(partial(_remove_schedule, org_id=org_id, name=name), org_id)

    async def next_planned(self, analyses: Sequence[str]) -> Instant | None:
        [(at,)] = await self._rows("next_planned", analyses=json_text(analyses))
        return at if isinstance(at, int) else None

    async def claim_due(self, analyses: Sequence[str], *, seconds: float, most: int) -> list[Schedule]:
        return await self._change(partial(_claim_due, analyses=analyses, seconds=seconds, most=most))

    async def unfinished(self, runs: Sequence[PlannedRun]) -> set[tuple[str, str]]:
        return {(org_id, name) for org_id, name in await self._rows("unfinished_runs", runs=json_text(runs))}

    async def advance(self, ends: Sequence[ScheduleEnd]) -> int:
        return await self._change(partial(_advance_schedule, ends=ends))

    async def of_code(self) -> list[Schedule]:
        return [schedule_from(row) for row in await self._rows("code_schedules")]
