"""What is promised of every job that was accepted, whatever was done to processes, hosts and the database."""

from collections.abc import Sequence

from tests.faults.judging import Seen, stale_writes
from tests.faults.report import Figure, never


def promises(seen: Sequence[Seen]) -> list[Figure]:
    """Nothing is lost, nothing ends twice, all of it completes, and only current attempts write."""
    completed = sum(one.job is not None and one.job["status"] == "completed" for one in seen)
    return [
        never("accepted jobs lost", sum(one.lost for one in seen), len(seen)),
        never("jobs ended twice", sum(one.ended_twice for one in seen), len(seen)),
        never("jobs stuck", sum(one.stuck for one in seen), len(seen)),
        never("jobs that did not complete", len(seen) - completed, len(seen)),
        never("writes of an earlier attempt", sum(stale_writes(one.events, one.snapshots) for one in seen), len(seen)),
    ]
