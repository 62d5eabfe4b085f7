"""Verdicts over jobs, from what the API returns and what the ledger holds.

Verdicts are pure functions, apart from the requests.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.faults.api import Api, Record
from tests.faults.ledger import COMPUTED, KEPT, START, Line

FINAL_EVENTS = frozenset({"job.completed", "job.failed", "job.canceled"})
_STARTS = frozenset({"job.running", "job.attempt_started"})
_AT_ONCE = 16


class JobObservation(NamedTuple):
    """A job at the end of a run, as the API returns it."""

    job: Record | None
    events: Sequence[Record] = ()
    snapshots: Sequence[Record] = ()

    @property
    def lost(self) -> bool:
        """Whether it was accepted and does not exist."""
        return self.job is None

    @property
    def stuck(self) -> bool:
        """Whether it exists and has not ended."""
        return self.job is not None and not self.job["finished_at"]

    @property
    def finals(self) -> int:
        """The number of final events in its log."""
        return sum(event["event_type"] in FINAL_EVENTS for event in self.events)

    @property
    def ended_twice(self) -> bool:
        """Whether it has several ends, an event after the end, or several final snapshots."""
        final_snapshots = sum(one["result_kind"] == "final" for one in self.snapshots)
        after = self.finals and self.events[-1]["event_type"] not in FINAL_EVENTS
        return self.finals > 1 or bool(after) or final_snapshots > 1


def stale_writes(events: Iterable[Record], snapshots: Iterable[Record]) -> int:
    """The number of steps and snapshots in the log that an attempt wrote after a later one had started."""
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
    """A killed process, and since when another one could continue its jobs."""

    pid: int
    at: float
    since: float


def recoveries(lines: Sequence[Line], kills: Sequence[Kill]) -> list[float]:
    """Return, for each killed attempt that was recovered, the seconds until its job ran again."""
    by_pid = {kill.pid: kill for kill in kills}
    found = []
    for line, following in _followed(lines):
        kill = by_pid.get(line.pid)
        if kill is None or following.at < kill.at:
            continue
        if following.attempt > line.attempt + 1:
            # The process that claimed it in between was killed before the attempt began.
            kill = max((one for one in kills if one.at < following.at), key=lambda one: one.at)
        found.append(max(0.0, following.at - kill.since))
    return found


def healthy_losses(lines: Sequence[Line], kills: Sequence[Kill]) -> int:
    """Return attempts that a running process lost because it could not renew its lease in time."""
    killed_at = {kill.pid: kill.at for kill in kills}
    return sum(following.at < killed_at.get(line.pid, float("inf")) for line, following in _followed(lines))


def computed_again(lines: Iterable[Line]) -> int:
    """Return the number of chunks computed although their result was stored already."""
    kept: set[tuple[str, int]] = set()
    again = 0
    for line in lines:
        if line.kind == KEPT:
            kept.add((line.job_id, line.chunk))
        elif line.kind == COMPUTED:
            again += (line.job_id, line.chunk) in kept
    return again


def _followed(lines: Sequence[Line]) -> list[tuple[Line, Line]]:
    """Return each start with the next start of the same job."""
    pairs = []
    latest: dict[str, Line] = {}
    for line in lines:
        if line.kind == START:
            if line.job_id in latest:
                pairs.append((latest[line.job_id], line))
            latest[line.job_id] = line
    return pairs


async def observe_jobs(api: Api, job_ids: Collection[str], *, seconds: float) -> dict[str, JobObservation]:
    """Wait until the jobs have ended or for the timeout, and return what the API shows of them."""
    known = await api.jobs()
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(job_id: str) -> JobObservation:
        async with room:
            job = known.get(job_id)
            if job is None or not job["finished_at"]:
                job = await api.ended(job_id, seconds)
            if job is None:
                return JobObservation(None)
            # With one attempt there are no stale writes.
            snapshots = await api.snapshots(job_id) if job["attempt"] > 1 else []
            return JobObservation(job, await api.events(job_id), snapshots)

    return dict(zip(job_ids, await asyncio.gather(*map(one, job_ids)), strict=True))


def changed(before: Mapping[str, Record], after: Mapping[str, Record]) -> int:
    """Return the number of jobs that changed after their end."""
    return sum(_end(before[job_id]) != _end(after[job_id]) for job_id in before)


def _end(job: Record) -> tuple[object, ...]:
    return tuple(job[name] for name in ("status", "finished_at", "result_id", "attempt", "event_seq", "error_code"))
