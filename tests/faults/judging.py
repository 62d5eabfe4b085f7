"""Judges jobs from outside, by what the API shows and what the ledger tells. Deciding is pure; asking is apart."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.faults.api import Api, Record
from tests.faults.ledger import COMPUTED, KEPT, START, Line

FINAL_EVENTS = frozenset({"job.completed", "job.failed", "job.canceled"})
_STARTS = frozenset({"job.running", "job.attempt_started"})
_AT_ONCE = 16


class Seen(NamedTuple):
    """A job at the end of a run, as the API shows it."""

    job: Record | None
    events: Sequence[Record] = ()
    snapshots: Sequence[Record] = ()

    @property
    def lost(self) -> bool:
        """It was accepted and is not there."""
        return self.job is None

    @property
    def stuck(self) -> bool:
        """It is there and has not ended."""
        return self.job is not None and not self.job["finished_at"]

    @property
    def finals(self) -> int:
        """How many ends its log tells of."""
        return sum(event["event_type"] in FINAL_EVENTS for event in self.events)

    @property
    def ended_twice(self) -> bool:
        """More ends than one, an event after the end, or more than one final snapshot."""
        final_snapshots = sum(one["result_kind"] == "final" for one in self.snapshots)
        after = self.finals and self.events[-1]["event_type"] not in FINAL_EVENTS
        return self.finals > 1 or bool(after) or final_snapshots > 1


def stale_writes(events: Iterable[Record], snapshots: Iterable[Record]) -> int:
    """How many steps and snapshots of an attempt stand in the log after a later attempt started."""
    attempt_of = {one["result_id"]: (one["summary_json"] or {}).get("attempt") for one in snapshots}
    current, stale = 0, 0
    for event in events:
        payload = event["payload_json"]
        if event["event_type"] in _STARTS:
            current = payload["attempt"]
        elif event["event_type"] == "job.progress":
            stale += payload["step"] != f"attempt {current}"
        elif event["event_type"] == "job.partial":
            stale += attempt_of.get(payload["result_id"], current) != current
    return stale


class Kill(NamedTuple):
    """A process that was killed, and since when somebody was there who could go on with its jobs."""

    pid: int
    at: float
    since: float


def recoveries(lines: Sequence[Line], kills: Sequence[Kill]) -> list[float]:
    """For each attempt that was killed and came back: the seconds until its job ran again."""
    by_pid = {kill.pid: kill for kill in kills}
    found = []
    for line, following in _followed(lines):
        kill = by_pid.get(line.pid)
        if kill is None or following.at < kill.at:
            continue
        if following.attempt > line.attempt + 1:
            # The process that had claimed it in between was killed as well, before the attempt began.
            kill = max((one for one in kills if one.at < following.at), key=lambda one: one.at)
        found.append(max(0.0, following.at - kill.since))
    return found


def healthy_losses(lines: Sequence[Line], kills: Sequence[Kill]) -> int:
    """Attempts that a process lost although nobody killed it: it had too little of the machine to renew in time."""
    killed_at = {kill.pid: kill.at for kill in kills}
    return sum(following.at < killed_at.get(line.pid, float("inf")) for line, following in _followed(lines))


def computed_again(lines: Iterable[Line]) -> int:
    """How many chunks were computed although their result was on disk already."""
    kept: set[tuple[str, int]] = set()
    again = 0
    for line in lines:
        if line.kind == KEPT:
            kept.add((line.job_id, line.chunk))
        elif line.kind == COMPUTED:
            again += (line.job_id, line.chunk) in kept
    return again


def _followed(lines: Sequence[Line]) -> list[tuple[Line, Line]]:
    """Each start that another start of the same job follows, with that one."""
    pairs = []
    latest: dict[str, Line] = {}
    for line in lines:
        if line.kind == START:
            if line.job_id in latest:
                pairs.append((latest[line.job_id], line))
            latest[line.job_id] = line
    return pairs


async def look_at(api: Api, job_ids: Collection[str], *, seconds: float) -> dict[str, Seen]:
    """Waits until the jobs have ended, or the time is over, and takes down all that the API shows of them."""
    known = await api.jobs()
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(job_id: str) -> Seen:
        async with room:
            job = known.get(job_id)
            if job is None or not job["finished_at"]:
                job = await api.ended(job_id, seconds)
            if job is None:
                return Seen(None)
            # Where there was one attempt there is nothing that an earlier one could have written.
            snapshots = await api.snapshots(job_id) if job["attempt"] > 1 else []
            return Seen(job, await api.events(job_id), snapshots)

    return dict(zip(job_ids, await asyncio.gather(*map(one, job_ids)), strict=True))


def changed(before: Mapping[str, Record], after: Mapping[str, Record]) -> int:
    """How many jobs do not look any more as they did at their end."""
    return sum(_end(before[job_id]) != _end(after[job_id]) for job_id in before)


def _end(job: Record) -> tuple[object, ...]:
    return tuple(job[name] for name in ("status", "finished_at", "result_id", "attempt", "event_seq", "error_code"))
