"""Erasure of an org: only the hashes of its keys stay in the store, and nothing of the org is written afterwards.

The order matters. First the keys are revoked, so that nothing is submitted with them. Then subscriptions are removed,
so that the following steps send no notifications. Jobs that have not ended are canceled, and their workers have some
time to stop. Jobs are deleted with all that belongs to them, those that a worker still holds by force: without a lease
its later writes are refused. Then the rows of the org are deleted from all other tables, and what is left is counted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from langlauf.clock import monotonic, new_id
from langlauf.domain.errors import StoreError
from langlauf.domain.read_models import CancelRequest
from langlauf.store.admin import KEYS, OF_JOBS
from langlauf.store.protocol import Store
from langlauf.store.retention import Pace
from langlauf.telemetry.log import LogEvent, log_event

#: Called with the name of a step, how much of it is done, and of how much.
ProgressCallback = Callable[[str, int, int], object]
#: How long workers have to stop running jobs.
STOP_SECONDS = 30.0
_REASON = "the org is being erased"
_LOOK_SECONDS = 0.5
_AT_ONCE = 200
#: Rows that appear during an erasure are erased in another round, this often; then the clients must be stopped.
_ROUNDS = 5


class OrgContents(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of an org before its erasure."""

    org_id: str
    #: by table, without empty tables
    rows: Mapping[str, int]
    held: int

    @property
    def total(self) -> int:
        """Number of rows that an erasure removes."""
        return sum(count for table, count in self.rows.items() if table != KEYS)


class ErasureReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure removed and kept."""

    org_id: str
    #: rows by table, as counted before
    removed: Mapping[str, int]
    blobs: int
    #: keys that were revoked; their ids, scopes, times and hashes stay, their names do not
    keys_kept: int


async def count_org(store: Store, org_id: str) -> OrgContents:
    """Count the rows of an org; changes nothing."""
    rows = await store.orgs.rows(org_id)
    found = {table: count for table, count in sorted(rows.items()) if count}
    return OrgContents(org_id=org_id, rows=found, held=await store.orgs.held(org_id))


async def erase(
    store: Store,
    org_id: str,
    *,
    with_held: bool,
    stop_seconds: float = STOP_SECONDS,
    on_progress: ProgressCallback = lambda *_: None,
) -> ErasureReport:
    """Erase an org. Safe to repeat; raises `StoreError` if rows are left or keep appearing."""
    found = await count_org(store, org_id)
    if found.held and not with_held:
        raise StoreError(f"{found.held} results of {org_id} are held; nothing was changed")
    keys = await store.orgs.forget_keys(org_id)
    run = _Erasure(store, org_id, with_held=with_held, on_progress=on_progress, total=found.total)
    for _ in range(_ROUNDS):
        await run.remove_tables(lambda table: table not in OF_JOBS)
        await run.end_jobs(stop_seconds)
        await run.remove_jobs()
        if not await run.unended() and (with_held or not await store.orgs.held(org_id)):
            await run.remove_tables(lambda table: table not in {KEYS, "jobs"})
        if not await run.left():
            break
    blobs = await store.blobs.remove_org(org_id)
    if left := await run.left():
        words = ", ".join(f"{count} of {table}" for table, count in left.items())
        raise StoreError(
            f"{org_id} still has {words}: stop the clients that submit jobs or hold results, and erase again"
        )
    log_event(LogEvent.ORG_ERASED, org_id=org_id, rows=found.total, blobs=blobs, keys=keys)
    removed = {table: count for table, count in found.rows.items() if table != KEYS}
    return ErasureReport(org_id=org_id, removed=removed, blobs=blobs, keys_kept=keys)


class _Erasure:
    """One erasure under way."""

    def __init__(
        self, store: Store, org_id: str, *, with_held: bool, on_progress: ProgressCallback, total: int
    ) -> None:
        self._store = store
        self._org_id = org_id
        self._with_held = with_held
        self._on_progress = on_progress
        self._total = total
        self._pace = Pace()

    async def left(self) -> dict[str, int]:
        """Count the rows that are left, except keys."""
        rows = await self._store.orgs.rows(self._org_id)
        left = {table: count for table, count in rows.items() if count and table != KEYS}
        self._on_progress("erasing", max(0, self._total - sum(left.values())), self._total)
        return left

    async def unended(self) -> list[str]:
        """Return some jobs that have not ended."""
        return await self._store.orgs.unended(self._org_id, _AT_ONCE)

    async def end_jobs(self, stop_seconds: float) -> None:
        """Cancel jobs that have not ended, and wait some time for their workers."""
        deadline = monotonic() + stop_seconds
        asked: set[str] = set()
        while waiting := await self.unended():
            new = [job_id for job_id in waiting if job_id not in asked]
            await asyncio.gather(*map(self._cancel, new))
            asked.update(new)
            self._on_progress("stopping running jobs", 0, len(waiting))
            if not new:
                if monotonic() >= deadline:
                    return
                await asyncio.sleep(_LOOK_SECONDS)  # workers of other processes cannot wake this one

    async def _cancel(self, job_id: str) -> None:
        request = CancelRequest(org_id=self._org_id, job_id=job_id, by="system", reason=_REASON, request_id=new_id())
        await self._store.cancel(request)

    async def remove_jobs(self) -> None:
        """Delete jobs that have ended, then those that a worker did not release."""
        remove = partial(self._store.orgs.remove_jobs, self._org_id, with_held=self._with_held)
        await self._in_batches(partial(remove, forced=False))
        await self._in_batches(partial(remove, forced=True))

    async def remove_tables(self, which: Callable[[str], bool]) -> None:
        """Delete the rows of the org from tables."""
        for table in filter(which, await self._store.orgs.rows(self._org_id)):
            await self._in_batches(partial(self._store.orgs.remove_rows, self._org_id, table))

    async def _in_batches(self, remove: Callable[[int], Awaitable[int]]) -> None:
        """Delete in small batches until nothing is left, with pauses for other writers."""
        while True:
            began = monotonic()
            removed = await remove(self._pace.rows)
            if not removed:
                return
            await self._pace.rest(removed, monotonic() - began)
