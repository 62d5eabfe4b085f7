"""Honest estimates: from progress where there is some, else from what recent runs took, else nothing."""

import math

from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.job import Job
from langlauf.domain.state import Status

SHORTEST_POLL = 1
LONGEST_POLL = 30
#: A finished job changes only when retention takes its parts.
POLL_WHEN_DONE = 60


def remaining_seconds(job: Job, now: Instant, typical_run: float | None) -> float | None:
    """How long the job probably still takes; None where nothing is known."""
    if job.terminal:
        return 0.0
    if job.status is Status.QUEUED or job.attempt_started_at is None:
        return job.estimated_seconds
    elapsed = max(0.0, seconds_between(job.attempt_started_at, now))
    if job.progress_percent > 0:
        # Progress is kept over attempts, so it is measured from the first one: a retry does not make a job look quick.
        so_far = max(0.0, seconds_between(job.started_at or job.attempt_started_at, now))
        return round(so_far * (100 - job.progress_percent) / job.progress_percent, 1)
    if typical_run is None:
        return None
    return round(max(typical_run - elapsed, 0.0), 1)


def expected_wait(waiting_before: int, slots: int, typical_run: float | None) -> float | None:
    """How long a job that is accepted now probably takes until its end, queue included."""
    if typical_run is None:
        return None
    rounds_before = waiting_before / max(slots, 1)
    return round((rounds_before + 1) * typical_run, 1)


def poll_after(job: Job, remaining: float | None) -> int:
    """Whole seconds a client should wait before it asks again."""
    if job.terminal:
        return POLL_WHEN_DONE
    if remaining is None:
        return SHORTEST_POLL
    return max(SHORTEST_POLL, min(LONGEST_POLL, math.ceil(remaining / 4)))
