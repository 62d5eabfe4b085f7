"""Use cases of schedules: an org's own, those that come with code, and firing what is due."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from langlauf.analysis.registry import Analysis, Registry
from langlauf.analysis.schema import InvalidInput, canonical_json, read_input
from langlauf.auth.caller import DEFAULT_ORG, Caller, internal_caller
from langlauf.clock import Clock
from langlauf.domain.errors import LanglaufError, Overloaded, StoreError
from langlauf.domain.instant import Instant, after, seconds_between
from langlauf.domain.job import Accepted, KeyReused, Replayed, SubmitOutcome
from langlauf.domain.read_models import JobView
from langlauf.domain.schedule import (
    MOST_SCHEDULES,
    Firing,
    InvalidSchedule,
    PlannedRun,
    Schedule,
    ScheduleEnd,
    check_schedule,
    due_runs,
    next_run,
    run_key,
)
from langlauf.domain.text import first_flaw
from langlauf.service.notifications import NotifyOptions, NotifyValidator
from langlauf.service.submit import SubmitRequest, SubmitService
from langlauf.settings import Settings
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event
from langlauf.telemetry.metrics import SCHEDULE_DELAY, SCHEDULE_RUNS

#: Schedules that one process fires at once, and for how long it keeps others from them: a process that dies with them
#: delays them by no more. A run that is fired twice all the same is one job, by its idempotency key.
_MOST_AT_ONCE = 200
_CLAIM_SECONDS = 1.0
#: The longest pause between two looks: schedules are made and changed in other processes.
LOOK_SECONDS = 1.0
_MOST_TRIES = 5
_LONGEST_OUTCOME = 500
#: When a schedule is tried again whose times this machine cannot compute, in seconds.
_RETRY_INVALID = 3_600.0


class ScheduleExists(LanglaufError):
    """The org has a schedule of that name, or as many as it may have."""


class ScheduleService:
    """Schedules of an org."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, submissions: SubmitService, clock: Clock
    ) -> None:
        self._store = store
        self._registry = registry
        self._submissions = submissions
        self._clock = clock
        self._notices = NotifyValidator(store, settings)

    async def all_of(self, org_id: str) -> list[Schedule]:
        """Return the schedules of an org, by name."""
        return await self._store.tenant(org_id).schedules()

    async def one(self, org_id: str, name: str) -> Schedule | None:
        """Return one of them."""
        found = await self._store.tenant(org_id).schedules(name)
        return found[0] if found else None

    async def runs(self, org_id: str, name: str, limit: int) -> list[JobView]:
        """Return the newest runs of a schedule."""
        return await self._store.tenant(org_id).schedule_runs(name, limit=limit)

    async def add(self, new: Schedule) -> Schedule:
        """Check and store a schedule; raise `InvalidInput` or `ScheduleExists`."""
        made = await self._checked(new)
        if not await self._store.schedules.add(made):
            if await self.one(new.org_id, new.name) is None:
                raise ScheduleExists(f"the org has {MOST_SCHEDULES} schedules already; remove one")
            raise ScheduleExists(f"there is a schedule {new.name} already; change it, or choose another name")
        return made

    async def change(self, org_id: str, name: str, changes: dict[str, Any]) -> Schedule | None:
        """Change some fields; the next run is planned anew where the times have changed. None where there is none."""
        for _ in range(_MOST_TRIES):
            old = await self.one(org_id, name)
            if old is None:
                return None
            made = await self._checked(replace(old, **changes), old)
            if made == replace(old, updated_at=made.updated_at):
                return old
            if await self._store.schedules.change(made, seen_at=old.updated_at):
                return made
        raise Overloaded(f"the schedule {name} is being changed by others; try again")

    async def remove(self, org_id: str, name: str) -> bool:
        """Remove a schedule; its jobs stay."""
        return await self.one(org_id, name) is not None and await self._store.schedules.remove(org_id, name)

    async def run_now(self, caller: Caller, name: str, idempotency_key: str | None) -> SubmitOutcome | None:
        """Submit one run now, whatever is planned; None where there is no such schedule."""
        found = await self.one(caller.org_id, name)
        if found is None:
            return None
        request = _request(found, self._clock.now(), idempotency_key)
        return await self._submissions.submit(caller, request)

    async def _checked(self, one: Schedule, old: Schedule | None = None) -> Schedule:
        now = self._clock.now()
        analysis = self._submissions.analysis_for(one.analysis or None)
        try:
            check_schedule(replace(one, created_at=one.created_at or now), now)
        except InvalidSchedule as error:
            raise InvalidInput(error.field, error.message, error.code) from None
        if one.notify is not None:
            await self._notices.subscriptions(one.org_id, msgspec.json.decode(one.notify, type=NotifyOptions))
        made = replace(
            one,
            analysis=analysis.name,
            input=_stored_input(analysis, one.input),
            created_at=one.created_at or now,
            # A change is known by its time, so that two are never the same.
            updated_at=now if old is None else max(now, old.updated_at + 1),
        )
        same_times = old is not None and not old.paused and _times(old) == _times(made)
        planned = old.next_run_at if old is not None and same_times else next_run(made, now)
        return replace(made, next_run_at=None if made.paused else planned)

    async def follow_code(self) -> None:
        """Make the schedules of the default org what the decorators say: added, changed, or removed with them.

        A pause is left as it is. Schedules of analyses that are not registered here may belong to another application.
        """
        wanted = {one.name: one for one in self._registry if one.planned is not None}
        known = {one.name: one for one in await self._store.schedules.of_code() if one.org_id == DEFAULT_ORG}
        for name, analysis in wanted.items():
            planned: dict[str, Any] = dict(analysis.planned or {})
            if name in known:
                await self.change(DEFAULT_ORG, name, planned)
                continue
            try:
                await self.add(Schedule(org_id=DEFAULT_ORG, name=name, source="code", **planned))
            except ScheduleExists:  # another process was faster, or a person has made one of that name
                log_event(LogEvent.SCHEDULE_KEPT, schedule=name)
        for name in known.keys() - wanted.keys():
            if known[name].analysis in self._registry.names:
                await self.remove(DEFAULT_ORG, name)


def _times(one: Schedule) -> tuple[Any, ...]:
    return one.cron, one.every_seconds, one.zone


def _stored_input(analysis: Analysis, text: str) -> str:
    values = msgspec.json.decode(text)
    if not isinstance(values, dict):
        raise InvalidInput("input", "input must be an object")
    if flaw := first_flaw(values):
        raise InvalidInput("input", flaw)
    return canonical_json(read_input(analysis.input_type, values, "input."))


def _request(one: Schedule, planned_at: Instant, key: str | None) -> SubmitRequest:
    notify = None if one.notify is None else msgspec.json.decode(one.notify, type=NotifyOptions)
    return SubmitRequest(
        analysis=one.analysis,
        input=msgspec.json.decode(one.input),
        allow_duplicate=True,
        idempotency_key=key,
        notify=notify,
        schedule=one.name,
        planned_at=planned_at,
    )


def _invalid(one: Schedule, reason: str, next_run_at: Instant | None) -> ScheduleEnd:
    """Log why a due run cannot be submitted, and return that as what became of it."""
    log_event(LogEvent.SCHEDULE_INVALID, logging.ERROR, org_id=one.org_id, schedule=one.name, reason=reason)
    return ScheduleEnd(
        org_id=one.org_id,
        name=one.name,
        fired_at=one.next_run_at or 0,
        next_run_at=next_run_at,
        outcome=f"invalid: {reason}"[:_LONGEST_OUTCOME],
    )


class ScheduleFirer:
    """Fires what is due. Any number of processes may: each planned run becomes one job."""

    def __init__(self, store: Store, registry: Registry, submissions: SubmitService) -> None:
        self._store = store
        self._analyses = registry.names
        self._submissions = submissions
        self._next_in = LOOK_SECONDS

    async def fire(self) -> int:
        """Fire all that is due, in sets; return how many runs were submitted."""
        fired = 0
        while True:
            at = await self._store.schedules.next_planned(self._analyses)
            now = self._store.clock.now()
            if at is None or at > now:
                self._next_in = LOOK_SECONDS if at is None else seconds_between(now, at)
                return fired
            due = await self._store.schedules.claim_due(self._analyses, seconds=_CLAIM_SECONDS, most=_MOST_AT_ONCE)
            if not due:  # others have them in hand
                self._next_in = LOOK_SECONDS
                return fired
            fired += await self.fire_these(due, now)

    async def pause(self, seconds: float) -> None:
        """Wait for the next planned time, or for so many seconds."""
        await asyncio.sleep(min(seconds, max(0.0, self._next_in)))

    async def fire_these(self, due: Sequence[Schedule], now: Instant) -> int:
        """Submit the due runs of these schedules, and plan the next ones."""
        firings, ends = list[tuple[Schedule, Firing]](), list[ScheduleEnd]()
        for one in due:
            try:
                firings.append((one, due_runs(one, now)))
            except ValueError as error:  # its time zone is not known on this machine
                ends.append(_invalid(one, str(error), after(now, _RETRY_INVALID)))
                SCHEDULE_RUNS.add("invalid")
        looked_for = [
            PlannedRun(one.org_id, one.name, firing.run[0])
            for one, firing in firings
            if one.overlap == "skip" and firing.run
        ]
        busy = await self._store.schedules.unfinished(looked_for)
        made = await asyncio.gather(
            *(self._fire_one(one, firing, busy=(one.org_id, one.name) in busy) for one, firing in firings)
        )
        ends += [end for end in made if end is not None]
        await self._store.schedules.advance(ends)
        return sum(end.job_id is not None for end in ends)

    async def _fire_one(self, one: Schedule, firing: Firing, *, busy: bool) -> ScheduleEnd | None:
        """Return what became of a due schedule; None where it is to be tried again."""
        end = ScheduleEnd(
            org_id=one.org_id,
            name=one.name,
            fired_at=one.next_run_at or 0,
            next_run_at=firing.next_run_at,
            outcome=None if firing.run else "missed",
        )
        for planned_at in firing.run:
            if busy and one.overlap == "skip":
                end = replace(end, last_run_at=planned_at, outcome="skipped")
            else:
                run = await self._submit(one, planned_at, end)
                if run is None:
                    return None
                end, busy = run, run.job_id is not None
        if end.outcome is not None:
            SCHEDULE_RUNS.add(end.outcome.partition(":")[0])
        return end

    async def _submit(self, one: Schedule, planned_at: Instant, end: ScheduleEnd) -> ScheduleEnd | None:
        """Return how a run was submitted; None where the store or the queue has no room: its claim expires."""
        end = replace(end, last_run_at=planned_at)
        request = _request(one, planned_at, run_key(one.name, planned_at))
        try:
            submitted = await self._submissions.submit(internal_caller(one.org_id), request)
        except InvalidInput as error:
            return replace(_invalid(one, error.message, end.next_run_at), last_run_at=planned_at)
        except StoreError:
            return None
        if isinstance(submitted, Accepted):
            SCHEDULE_DELAY.observe(max(0.0, seconds_between(planned_at, submitted.job.queued_at)))
        if isinstance(submitted, Accepted | Replayed):
            return replace(end, outcome="submitted", job_id=submitted.job.job_id)
        if isinstance(submitted, KeyReused):  # the run was submitted, and the schedule has another input since
            return replace(end, outcome="submitted")
        SCHEDULE_RUNS.add("queue_full")
        return None
