"""The snapshots around one."""

from collections.abc import Sequence

import msgspec

from langlauf.domain.instant import Instant, after
from langlauf.domain.job import JobRecord
from langlauf.domain.result import Snapshot
from langlauf.domain.retention import RetentionPolicy
from langlauf.domain.state import Status

_MOST_LISTED = 100


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots around one, newest first. `hidden` counts those that are too many for a list."""

    listed: list[Snapshot]
    hidden: int
    before: Snapshot | None
    after: Snapshot | None


def snapshots_made(job: JobRecord) -> int:
    """How many snapshots the job has written so far, those that retention took included."""
    return job.partial_count + (job.status is Status.COMPLETED)


def neighbours(snapshots: Sequence[Snapshot], current: Snapshot) -> Neighbours:
    """The snapshots next to one, and as many of the others around it as a list can hold."""
    numbers = [snapshot.result_seq for snapshot in snapshots]
    at = numbers.index(current.result_seq) if current.result_seq in numbers else len(numbers) - 1
    first = max(0, min(at - _MOST_LISTED // 2, len(snapshots) - _MOST_LISTED))
    listed = list(snapshots[first : first + _MOST_LISTED])
    return Neighbours(
        listed=listed[::-1],
        hidden=len(snapshots) - len(listed),
        before=snapshots[at - 1] if at > 0 else None,
        after=snapshots[at + 1] if 0 <= at < len(snapshots) - 1 else None,
    )


def kept_until(job: JobRecord, snapshot: Snapshot, policy: RetentionPolicy) -> Instant | None:
    """When retention may take a snapshot; None where that cannot be told, or never comes."""
    seconds = policy.final_results if snapshot.result_kind == "final" else policy.partial_results
    return None if job.finished_at is None or seconds is None else after(job.finished_at, seconds)
