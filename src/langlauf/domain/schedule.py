"""Schedules: when an analysis is to run again and again, for an org; and pauses, during which nothing of it starts.

A cron expression is about local times of a zone, and each of them fires exactly once: one that a change of the clock
skips fires at the first moment after the gap, and one that happens twice fires the first time.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from typing import Annotated, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from langlauf.domain.instant import SECOND, Instant, from_datetime, to_datetime, to_text
from langlauf.domain.job import Name

RunOverlap = Literal["skip", "queue"]
Missed = Literal["once", "none", "all"]
ScheduleSource = Literal["api", "code"]
ScheduleName = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_.:-]{1,64}$")]
#: How many schedules an org may have.
MOST_SCHEDULES = 1_000
#: A run is missed when its time is longer ago than this: no process was there to fire it.
GRACE_SECONDS = 60.0
#: Missed runs that are caught up with at once, where all are wanted; the rest follows in the next round.
MOST_AT_ONCE = 100
SHORTEST_INTERVAL = 1.0
LONGEST_INTERVAL = 366 * 86_400.0
#: A cron expression that has no time within so many years, such as 30 February, is refused.
_MOST_YEARS = 9
#: How far back the newest time that has passed is looked for, in seconds: first where it most often is.
_LOOKS_BACK = (3_600, 86_400, 32 * 86_400, 367 * 86_400, _MOST_YEARS * 367 * 86_400)


class InvalidSchedule(ValueError):
    """A schedule that cannot be: the field, and what to give instead; `code` says the latter to pages."""

    def __init__(self, field: str, message: str, code: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.code = code


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The stored record of a schedule of an org."""

    org_id: Name
    name: str
    analysis: str
    #: JSON text
    input: str = "{}"
    cron: str | None = None
    every_seconds: float | None = None
    zone: str = "UTC"
    overlap: RunOverlap = "skip"
    missed: Missed = "once"
    paused: bool = False
    #: JSON text of where to notify of each end
    notify: str | None = None
    #: `code`: it comes and goes with the decorator of its analysis
    source: ScheduleSource = "api"
    created_at: Instant = 0
    updated_at: Instant = 0
    #: None while it is paused
    next_run_at: Instant | None = None
    #: the newest planned time that was fired or skipped, what became of it, and its job
    last_run_at: Instant | None = None
    last_outcome: str | None = None
    last_job_id: str | None = None
    #: while a process fires it
    claimed_until: Instant | None = None


#: The columns of a schedule, in the order of its fields.
SCHEDULE_FIELDS = Schedule.__struct_fields__


def check_schedule(one: Schedule, now: Instant) -> None:
    """Raise `InvalidSchedule` where it says no time, two kinds of time, or one that never comes."""
    if (one.cron is None) == (one.every_seconds is None):
        raise InvalidSchedule("cron", "give either cron or every_seconds", "one_time")
    if one.every_seconds is not None and not SHORTEST_INTERVAL <= one.every_seconds <= LONGEST_INTERVAL:
        raise InvalidSchedule("every_seconds", "give between a second and a year", "interval")
    try:
        time_zone(one.zone)
    except ValueError as error:
        raise InvalidSchedule("zone", str(error), "zone") from None
    if one.cron is not None:
        try:
            CronSim(one.cron, datetime.now(UTC))
        except CronSimError as error:
            message = f"{one.cron!r} is no cron expression of five fields, such as 0 6 * * 1-5: {error}"
            raise InvalidSchedule("cron", message, "cron") from None
        if next_run(one, now) is None:
            message = f"{one.cron!r} names no time within {_MOST_YEARS} years"
            raise InvalidSchedule("cron", message, "cron_never")


@lru_cache(maxsize=256)
def time_zone(name: str) -> ZoneInfo:
    """Return the zone of a name; raise `ValueError` where there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name!r} is no time zone; give one like Europe/Zurich") from None


def planned_times(one: Schedule, after: Instant) -> Iterator[Instant]:
    """Yield the planned times after an instant, each local time once."""
    if one.every_seconds is not None:
        step = round(one.every_seconds * SECOND)
        at = one.created_at + ((after - one.created_at) // step + 1) * step
        while True:
            yield at
            at += step
    zone = time_zone(one.zone)
    found = CronSim(one.cron or "", to_datetime(after).astimezone(zone))
    last, limit = after, to_datetime(after) + timedelta(days=366 * _MOST_YEARS)
    try:
        for moment in found:
            if moment > limit:
                return
            at = from_datetime(moment)
            if moment.fold or at <= last:
                continue
            last = at
            yield at
    except StopIteration:
        return


def next_run(one: Schedule, after: Instant) -> Instant | None:
    """Return the first planned time after an instant."""
    return next(planned_times(one, after), None)


class Firing(msgspec.Struct, frozen=True):
    """What is due of a schedule now: the planned times to run, and the next one."""

    run: list[Instant]
    next_run_at: Instant | None


def due_runs(one: Schedule, now: Instant) -> Firing:
    """Decide what is run of what is due. After a time without anybody to fire, `missed` decides."""
    if one.next_run_at is None or one.next_run_at > now:
        return Firing([], one.next_run_at)
    if one.missed == "all":
        times = list(islice(_from(one, one.next_run_at), MOST_AT_ONCE + 1))
        due = [at for at in times[:MOST_AT_ONCE] if at <= now]
        following = times[len(due)] if len(due) < len(times) else next_run(one, now)
        return Firing(due, following)
    latest = _latest(one, one.next_run_at, now)
    timely = now - latest <= GRACE_SECONDS * SECOND
    return Firing([latest] if timely or one.missed == "once" else [], next_run(one, now))


def _latest(one: Schedule, first: Instant, now: Instant) -> Instant:
    """Return the newest planned time that has passed, without counting through a long time of many."""
    for seconds in _LOOKS_BACK:
        start = max(first - 1, now - seconds * SECOND)
        found = deque(takewhile(lambda at: at <= now, planned_times(one, start)), maxlen=1)
        if found:
            return max(found[0], first)
    return first


def _from(one: Schedule, first: Instant) -> Iterator[Instant]:
    yield first
    yield from planned_times(one, first)


def run_key(name: str, planned_at: Instant) -> str:
    """Return the idempotency key of a planned run. It has spaces, which no key of a request can have."""
    return f"schedule {name} {to_text(planned_at)}"


class ScheduleEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a due schedule. `fired_at` is the planned time from which it goes on to the next."""

    org_id: str
    name: str
    fired_at: Instant
    next_run_at: Instant | None
    #: None where nothing was run or skipped
    last_run_at: Instant | None = None
    outcome: str | None = None
    job_id: str | None = None


class PlannedRun(NamedTuple):
    """A run of a schedule, by its planned time."""

    org_id: str
    name: str
    planned_at: Instant


# -- pauses ------------------------------------------------------------------------------------------------------------

#: The org of a pause for all orgs; no org has this name.
ALL_ORGS = ""


class PauseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to pause an analysis, or to change the reason and the end of its pause."""

    analysis: str
    org_id: str = ALL_ORGS
    because: str
    paused_until: Instant | None = None
    paused_by: str | None = None


class ResumeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to end a pause before its time."""

    analysis: str
    org_id: str = ALL_ORGS


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A stored pause. Running jobs go on, and submissions are accepted."""

    org_id: str
    analysis: str
    paused_at: Instant
    #: None: until it is resumed
    paused_until: Instant | None
    because: str
    paused_by: str | None

    def active(self, now: Instant) -> bool:
        """Whether it holds at this instant."""
        return self.paused_until is None or self.paused_until > now

    def covers(self, org_id: str, analysis: str) -> bool:
        """Whether it is about the jobs of this org and analysis."""
        return self.analysis == analysis and self.org_id in (ALL_ORGS, org_id)


def pause_of(pauses: Iterable[Pause], org_id: str, analysis: str, now: Instant) -> Pause | None:
    """Return the pause that keeps the jobs of an org and analysis from starting: of several the one that ends last."""
    held = [one for one in pauses if one.covers(org_id, analysis) and one.active(now)]
    return max(held, key=lambda one: (one.paused_until is None, one.paused_until or 0), default=None)
