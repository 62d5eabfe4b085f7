"""The promises for every accepted job, whatever is done to processes, hosts and the database."""

from collections.abc import Sequence

from tests.faults.report import Figure, never
from tests.faults.verdicts import JobObservation, stale_writes


def promises(seen: Sequence[JobObservation]) -> list[Figure]:
    """Check that no job is lost, none ends twice, all complete, and only current attempts write."""
    completed = sum(one.job is not None and one.job["status"] == "completed" for one in seen)
    return [
        never("accepted jobs lost", sum(one.lost for one in seen), len(seen)),
        never("jobs ended twice", sum(one.ended_twice for one in seen), len(seen)),
        never("jobs stuck", sum(one.stuck for one in seen), len(seen)),
        never("jobs that did not complete", len(seen) - completed, len(seen)),
        never("writes of an earlier attempt", sum(stale_writes(one.events, one.snapshots) for one in seen), len(seen)),
    ]
