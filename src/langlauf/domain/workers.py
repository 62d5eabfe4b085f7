"""Who works: what a worker tells of itself every few seconds, and what its silence means."""

from collections.abc import Iterable

import msgspec

from langlauf.domain.instant import Instant, seconds_between

#: So many reports in a row may be missing before a worker counts as silent: one can be late, two are not.
MISSED_REPORTS = 2
#: A worker that vanished is shown for so long, in seconds.
SILENT_KEPT_SECONDS = 3_600.0


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it sees itself. Its id is fresh at each start."""

    worker_id: str
    host: str
    pid: int
    version: str
    #: what it can run
    analyses: tuple[str, ...]
    slots: int
    busy: int
    #: how often it reports
    every_seconds: float
    started_at: Instant
    stopping: bool


class WorkerStatus(msgspec.Struct, frozen=True):
    """A worker as the store knows it."""

    report: WorkerReport
    seen_at: Instant
    #: the jobs that are its own until their leases end, and when the last of those does
    held: int
    held_until: Instant | None

    def quiet_seconds(self, now: Instant) -> float:
        """For how long nothing was heard of it."""
        return max(0.0, seconds_between(self.seen_at, now))

    def silent(self, now: Instant) -> bool:
        """Whether it has missed more reports than can be late."""
        return self.quiet_seconds(now) > MISSED_REPORTS * self.report.every_seconds + 1.0

    def works(self, now: Instant) -> bool:
        """Whether it takes new jobs."""
        return not self.report.stopping and not self.silent(now)


def runnable_analyses(workers: Iterable[WorkerStatus], now: Instant) -> frozenset[str]:
    """The analyses that some worker would take a job of."""
    return frozenset(name for worker in workers if worker.works(now) for name in worker.report.analyses)
