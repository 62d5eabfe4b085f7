"""Administration in PostgreSQL: keys, sessions, orgs, workers and duties, schedules, and retention."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import structs
from msgspec.structs import astuple

from langlauf.clock import new_secret
from langlauf.domain.access import ApiKey, HashedKey, KeyChanges
from langlauf.domain.health import SILENT_KEPT_SECONDS, DutySuccess, WorkerReport, WorkerStatus
from langlauf.domain.instant import Instant, after
from langlauf.domain.provenance import CodeVersion
from langlauf.domain.schedule import MOST_SCHEDULES, PlannedRun, Schedule, ScheduleEnd
from langlauf.hints import Hints
from langlauf.store.admin_protocol import KNOWN_AS, RecordOwner, SessionEnd, worker_from, worker_values
from langlauf.store.commit_hints import announce
from langlauf.store.postgres.batch import storable_or_none
from langlauf.store.postgres.connection import DatabaseConnection, PooledStore, ReadPool
from langlauf.store.retention import NEVER, Cutoffs, Kind, RetirableJob, RetireBatch
from langlauf.store.sql import key_from, schedule_from, scopes_text

#: Tables whose public name is another one.
_OWN_NAMES = ("event_rows", "outbox")


class PostgresAccess(PooledStore):
    """API keys, ended sessions and signing secrets."""

    async def create_key(self, new: HashedKey) -> ApiKey | None:
        key = new.key
        values = (key.key_id, key.org_id, key.name, new.secret_hash, scopes_text(key.scopes), key.expires_at)
        return await self._key("create_key", self._at(), *values)

    async def revoke_key(self, key_id: str, *, org_id: str | None) -> ApiKey | None:
        return await self._key("revoke_key", self._at(), storable_or_none(key_id), org_id)

    async def keys(self, org_id: str | None) -> list[ApiKey]:
        return [key_from(row) for row in await self._pool.rows("list_keys", org_id)]

    async def key_changes(self, after: int) -> KeyChanges:
        rows = await self._pool.rows("key_changes", after)
        changed = [HashedKey(key_from(key), secret_hash) for key, secret_hash, _ in rows]
        return KeyChanges(rows[-1][-1] if rows else after, changed)

    async def note_key_uses(self, uses: Mapping[str, Instant]) -> None:
        await self._pool.call("note_key_uses", list(uses), list(uses.values()))

    async def signing_secret(self, purpose: str) -> bytes:
        return cast("bytes", await self._pool.call("keep_secret", self._at(), purpose, new_secret()))

    async def end_session(self, session_id: str, expires_at: Instant) -> None:
        await self._pool.call("end_session", self._at(), session_id, expires_at)

    async def session_ends(self, after: int) -> list[SessionEnd]:
        return [SessionEnd(*row) for row in await self._pool.rows("session_ends", after)]

    async def find(self, kind: Literal["job", "result"], record_id: str) -> RecordOwner | None:
        rows = await self._pool.rows("owners", kind, storable_or_none(record_id))
        return RecordOwner(*rows[0]) if len(rows) == 1 else None

    async def _key(self, function: str, *values: object) -> ApiKey | None:
        rows = await self._pool.rows(function, *values)
        return key_from(rows[0]) if rows else None


class PostgresOrgs:
    """Counts and erases the records of an org, by statements with a longer timeout than those of requests."""

    def __init__(self, connection: DatabaseConnection, at: Callable[[], Instant | None]) -> None:
        self._connection = connection
        self._at = at

    async def rows(self, org_id: str) -> dict[str, int]:
        found = await self._connection.slow_rows("org_rows", storable_or_none(org_id))
        return dict(sorted((KNOWN_AS.get(table, table), count) for table, count in found))

    async def held(self, org_id: str) -> int:
        return await self._number("org_held", storable_or_none(org_id))

    async def unended(self, org_id: str, limit: int) -> list[str]:
        rows = await self._connection.slow_rows("org_unended", storable_or_none(org_id), limit)
        return [job_id for (job_id,) in rows]

    async def forget_keys(self, org_id: str) -> int:
        return await self._number("forget_keys", self._at(), storable_or_none(org_id))

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        return await self._number("erase_jobs", storable_or_none(org_id), limit, with_held, forced)

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        own = {known: name for name, known in KNOWN_AS.items() if name in _OWN_NAMES}
        return await self._number("erase_rows", storable_or_none(org_id), own.get(table, table), limit)

    async def _number(self, function: str, *values: Any) -> int:
        [(number,)] = await self._connection.slow_rows(function, *values)
        return int(number)


class PostgresWorkers(PooledStore):
    """Reports of running workers."""

    async def save_report(self, report: WorkerReport) -> None:
        values = worker_values(report).values()
        await self._pool.call("save_worker_report", self._at(), after(0, SILENT_KEPT_SECONDS), *values)

    async def remove(self, worker_id: str) -> None:
        await self._pool.call("remove_worker", worker_id)

    async def code(self, key: int) -> CodeVersion | None:
        rows = await self._pool.rows("find_code", key)
        names = CodeVersion.__struct_fields__
        return CodeVersion(**{name: rows[0][name] for name in names}) if rows else None

    async def save_codes(self, codes: Sequence[CodeVersion]) -> None:
        rows = [(one.key, *structs.astuple(one)) for one in codes]
        if rows:
            await self._pool.call("save_codes", self._at(), *map(list, zip(*rows, strict=True)))

    async def statuses(self) -> list[WorkerStatus]:
        return [worker_from(tuple(row)) for row in await self._pool.rows("all_workers")]


class PostgresDuties(PooledStore):
    """When each maintenance duty last succeeded."""

    async def record_success(self, name: str, host: str) -> None:
        await self._pool.call("record_duty", self._at(), name, host)

    async def successes(self) -> list[DutySuccess]:
        return [DutySuccess(*row) for row in await self._pool.rows("all_duties")]


# -- schedules ---------------------------------------------------------------------------------------------------------


class PostgresSchedules:
    """Schedules of all orgs."""

    def __init__(self, pool: ReadPool, connection: DatabaseConnection, at: Callable[[], Instant | None]) -> None:
        self._pool = pool
        #: firing has a connection of its own, so that it waits for no reader
        self._connection = connection
        self._at = at

    async def add(self, new: Schedule) -> bool:
        return cast("bool", await self._pool.call("add_schedule", astuple(new), MOST_SCHEDULES))

    async def change(self, changed: Schedule, *, seen_at: Instant) -> bool:
        return cast("bool", await self._pool.call("change_schedule", astuple(changed), seen_at))

    async def remove(self, org_id: str, name: str) -> bool:
        return cast("bool", await self._pool.call("remove_schedule", org_id, name))

    async def next_planned(self, analyses: Sequence[str]) -> Instant | None:
        return cast("Instant | None", await self._connection.call("next_planned", list(analyses)))

    async def claim_due(self, analyses: Sequence[str], *, seconds: float, most: int) -> list[Schedule]:
        rows = await self._connection.rows("claim_schedules", self._at(), list(analyses), after(0, seconds), most)
        return [schedule_from(row) for row in rows]

    async def unfinished(self, runs: Sequence[PlannedRun]) -> set[tuple[str, str]]:
        if not runs:
            return set()
        columns = [list(column) for column in zip(*runs, strict=True)]
        return {(org_id, name) for org_id, name in await self._pool.rows("unfinished_runs", *columns)}

    async def advance(self, ends: Sequence[ScheduleEnd]) -> int:
        columns = [list(column) for column in zip(*map(astuple, ends), strict=True)] if ends else [[]] * 7
        return cast("int", await self._connection.call("advance_schedules", *columns))

    async def of_code(self) -> list[Schedule]:
        return [schedule_from(row) for row in await self._pool.rows("code_schedules")]


# -- retention ---------------------------------------------------------------------------------------------------------


class PostgresRetention:
    """Finds and removes what is older than its retention period."""

    def __init__(self, connection: DatabaseConnection, hints: Hints, at: Instant | None) -> None:
        self._connection = connection
        self._hints = hints
        self._at = at

    async def page(self, kind: Kind, cutoffs: Cutoffs, behind: RetirableJob | None, most: int) -> list[RetirableJob]:
        position = (NEVER, "", "") if behind is None else (behind.finished_at, behind.org_id, behind.job_id)
        rows = await self._connection.slow_rows(
            f"retirable_{kind}", cutoffs.latest(kind), *position, most, *_result_cutoffs(kind, cutoffs)
        )
        return [RetirableJob(finished_at, None, *rest) for finished_at, *rest in rows]

    async def take(self, batch: RetireBatch) -> int:
        orgs, ids = zip(*batch.jobs, strict=True)
        limits = (batch.cutoffs.latest(batch.kind), *_result_cutoffs(batch.kind, batch.cutoffs))
        [[removed]] = await self._connection.slow_rows(f"retire_{batch.kind}", self._at, list(orgs), list(ids), *limits)
        announce(self._hints, batch, removed)
        return int(removed)

    async def prune_codes(self, before: Instant) -> int:
        [[removed]] = await self._connection.slow_rows("prune_codes", self._at, before)
        return int(removed)

    async def ended(self) -> tuple[int, int]:
        [(ended, with_end)] = await self._connection.slow_rows("count_ended")
        return ended, with_end

    async def kept(self) -> tuple[int, int]:
        [(results, events)] = await self._connection.slow_rows("count_kept")
        return results, events


def _result_cutoffs(kind: Kind, cutoffs: Cutoffs) -> tuple[Instant, ...]:
    """Return the cutoffs of each kind of snapshot, which only the retention of results takes."""
    if kind != "results":
        return ()
    return cutoffs.final_results, cutoffs.partial_results, cutoffs.completed_partials
