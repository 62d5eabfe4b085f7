"""Administration in PostgreSQL: keys, sessions, orgs, workers and duties, schedules, and retention."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from langlauf.domain.instant import Instant, after
from langlauf.hints import Hints
from langlauf.store.admin import (
    KNOWN_AS,
    AccessStore,
    DutyStore,
    OrgStore,
    ScheduleStore,
    StoreCalls,
    WorkerStore,
)
from langlauf.store.commit_hints import announce
from langlauf.store.postgres.batch import storable_or_none
from langlauf.store.postgres.connection import DatabaseConnection, PooledStore, ReadPool
from langlauf.store.retention import NEVER, Cutoffs, Kind, RetirableJob, RetireBatch
from langlauf.store.shared_sql import shared_statements

#: Tables whose public name is another one.
_OWN_NAMES = ("event_rows", "outbox")
_SHARED = shared_statements("postgres")
#: Functions that change something without a time, beside the shared ones. All others take it first.
_WITHOUT_TIME = frozenset({"erase_jobs", "erase_rows"})
#: Functions that fire schedules.
_FIRING = frozenset({"next_planned", "claim_schedules", "advance_schedules"})


def _storable(value: Any) -> Any:
    return storable_or_none(value) if isinstance(value, str) else value


#: What is not taken as it is: ids that no row can have, and durations, which are in microseconds.
_KINDS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("key_id", "endpoint_id", "job_id", "record_id"), _storable),
    **dict.fromkeys(("claim_seconds", "retry_seconds", "pause_seconds"), partial(after, 0)),
}


class PostgresCalls(PooledStore, StoreCalls):
    """Calls functions of the database. No row has an id that cannot be stored: None is looked for in its place."""

    async def _rows(self, query: str, /, **values: Any) -> list[Any]:
        return await self._runner(query).rows(query, *_stored(values))

    async def _call(self, change: str, /, **values: Any) -> Any:
        runner = self._runner(change)
        run = runner.rows if change in _SHARED and _SHARED[change].gives_rows else runner.call
        return await run(change, *self._timed(change, values))

    def _runner(self, function: str) -> ReadPool | DatabaseConnection:  # noqa: ARG002 - drivers of some functions differ
        return self._pool

    def _timed(self, change: str, values: Mapping[str, Any]) -> Iterator[Any]:
        """Return the values of a change, behind its time."""
        timed = _SHARED[change].timed if change in _SHARED else change not in _WITHOUT_TIME
        return _stored({"now": self._at(), **values} if timed else values)


def _stored(values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield values as functions of the database take them."""
    for name, value in values.items():
        kind = _KINDS.get(name)
        yield value if kind is None or value is None else kind(value)


class PostgresAccess(PostgresCalls, AccessStore):
    """API keys, ended sessions and signing secrets."""


class PostgresOrgs(PostgresCalls, OrgStore):
    """Counts and erases the records of an org, by statements with a longer timeout than those of requests."""

    def __init__(self, connection: DatabaseConnection, at: Callable[[], Instant | None]) -> None:
        self._connection = connection
        self._at = at

    async def rows(self, org_id: str) -> dict[str, int]:
        found = await self._rows("org_rows", org_id=org_id)
        return dict(sorted((KNOWN_AS.get(table, table), count) for table, count in found))

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        own = {known: name for name, known in KNOWN_AS.items() if name in _OWN_NAMES}
        return int(await self._call("erase_rows", org_id=org_id, table=own.get(table, table), limit=limit))

    async def _rows(self, query: str, /, **values: Any) -> list[Any]:
        return await self._connection.slow_rows(query, *map(_storable, values.values()))

    async def _call(self, change: str, /, **values: Any) -> Any:
        [(value,)] = await self._connection.slow_rows(change, *map(_storable, self._timed(change, values)))
        return value


class PostgresWorkers(PostgresCalls, WorkerStore):
    """Reports of running workers."""


class PostgresDuties(PostgresCalls, DutyStore):
    """When each maintenance duty last succeeded."""


class PostgresSchedules(PostgresCalls, ScheduleStore):
    """Schedules of all orgs. Firing has a connection of its own, so that it waits for no reader."""

    def __init__(self, pool: ReadPool, connection: DatabaseConnection, at: Callable[[], Instant | None]) -> None:
        super().__init__(pool, at)
        self._connection = connection

    def _runner(self, function: str) -> ReadPool | DatabaseConnection:
        return self._connection if function in _FIRING else self._pool


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
