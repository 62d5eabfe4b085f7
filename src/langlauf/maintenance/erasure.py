"""Erasing an org: nothing of it stays in the store but the hashes of its keys, and nothing of it is written afterwards.

In this order: its keys are ended, so that nobody submits with them; where it wanted to be told of its jobs is
forgotten, so that what follows is told to nobody; what has not ended is canceled, and its workers have a while to stop;
jobs go with all that belongs to them, those that a worker still has by force: with their leases gone, what it writes
later is refused. Then every table that has rows of orgs is emptied of this one's. At the end it is counted again.
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

#: Told of each step: what it is, how far, of how much.
Watch = Callable[[str, int, int], object]
#: How long workers have to stop what runs.
PATIENCE = 30.0
_REASON = "the org is being erased"
_LOOK_SECONDS = 0.5
_AT_ONCE = 200
#: What comes while an org is erased is erased too, so many times; then somebody has to stop whoever submits.
_ROUNDS = 5


class OrgFound(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of an org."""

    org_id: str
    #: by table; those without any are not there
    rows: Mapping[str, int]
    held: int

    @property
    def total(self) -> int:
        """How many rows would go."""
        return sum(count for table, count in self.rows.items() if table != KEYS)


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    org_id: str
    #: rows by table, as they were counted before
    removed: Mapping[str, int]
    blobs: int
    #: keys that were ended; their ids, scopes, times and hashes stay, their names do not
    keys_kept: int


async def look(store: Store, org_id: str) -> OrgFound:
    """Counts, and changes nothing."""
    rows = await store.orgs.rows(org_id)
    found = {table: count for table, count in sorted(rows.items()) if count}
    return OrgFound(org_id=org_id, rows=found, held=await store.orgs.held(org_id))


async def erase(
    store: Store,
    org_id: str,
    *,
    with_held: bool,
    patience: float = PATIENCE,
    watch: Watch = lambda *_: None,
) -> Erased:
    """Takes an org away. Repeating it is fine; raises `StoreError` where something of it is left or comes anew."""
    found = await look(store, org_id)
    if found.held and not with_held:
        raise StoreError(f"{found.held} results of {org_id} are held; nothing was changed")
    keys = await store.orgs.forget_keys(org_id)
    run = _Erasing(store, org_id, with_held=with_held, watch=watch, total=found.total)
    for _ in range(_ROUNDS):
        await run.remove_tables(lambda table: table not in OF_JOBS)
        await run.end_jobs(patience)
        await run.remove_jobs()
        if not await run.unended() and (with_held or not await store.orgs.held(org_id)):
            await run.remove_tables(lambda table: table not in {KEYS, "jobs"})
        if not await run.left():
            break
    blobs = await store.blobs.remove_all_of(org_id)
    if left := await run.left():
        words = ", ".join(f"{count} of {table}" for table, count in left.items())
        raise StoreError(f"of {org_id} there are still {words}: stop whoever submits or holds, and erase again")
    log_event(LogEvent.ORG_ERASED, org_id=org_id, rows=found.total, blobs=blobs, keys=keys)
    removed = {table: count for table, count in found.rows.items() if table != KEYS}
    return Erased(org_id=org_id, removed=removed, blobs=blobs, keys_kept=keys)


class _Erasing:
    """One erasure under way."""

    def __init__(self, store: Store, org_id: str, *, with_held: bool, watch: Watch, total: int) -> None:
        self._store = store
        self._org_id = org_id
        self._with_held = with_held
        self._watch = watch
        self._total = total
        self._pace = Pace()

    async def left(self) -> dict[str, int]:
        """What is still there, keys aside."""
        rows = await self._store.orgs.rows(self._org_id)
        left = {table: count for table, count in rows.items() if count and table != KEYS}
        self._watch("erasing", max(0, self._total - sum(left.values())), self._total)
        return left

    async def unended(self) -> list[str]:
        """Some jobs that have not ended."""
        return await self._store.orgs.unended(self._org_id, _AT_ONCE)

    async def end_jobs(self, patience: float) -> None:
        """Cancels what has not ended, and waits a while for those who run it."""
        deadline = monotonic() + patience
        asked: set[str] = set()
        while waiting := await self.unended():
            new = [job_id for job_id in waiting if job_id not in asked]
            await asyncio.gather(*map(self._cancel, new))
            asked.update(new)
            self._watch("stopping what runs", 0, len(waiting))
            if not new:
                if monotonic() >= deadline:
                    return
                await asyncio.sleep(_LOOK_SECONDS)  # workers of other processes have no other way to tell

    async def _cancel(self, job_id: str) -> None:
        request = CancelRequest(org_id=self._org_id, job_id=job_id, by="system", reason=_REASON, request_id=new_id())
        await self._store.cancel(request)

    async def remove_jobs(self) -> None:
        """Those that have ended, then those that a worker would not give up."""
        remove = partial(self._store.orgs.remove_jobs, self._org_id, with_held=self._with_held)
        await self._again(partial(remove, forced=False))
        await self._again(partial(remove, forced=True))

    async def remove_tables(self, which: Callable[[str], bool]) -> None:
        """Empties tables of the org."""
        for table in filter(which, await self._store.orgs.rows(self._org_id)):
            await self._again(partial(self._store.orgs.remove_rows, self._org_id, table))

    async def _again(self, remove: Callable[[int], Awaitable[int]]) -> None:
        """A few at a time until there are no more, with room for others in between."""
        while True:
            began = monotonic()
            removed = await remove(self._pace.rows)
            if not removed:
                return
            await self._pace.rest(removed, monotonic() - began)
