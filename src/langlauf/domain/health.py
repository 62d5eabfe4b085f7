"""Health of a deployment: reports of workers, successes of periodic duties, and the rules that find problems."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from langlauf.domain.health_rules import (
    FAILURES,
    LONG_WAIT,
    MIN_ENDED,
    NO_WORKER,
    SILENT_WORKER,
    SLOW_CANCEL,
    STORE_UNWRITABLE,
    UNKNOWN_ANALYSIS,
    Severity,
)
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.statistics import JobCounts, OpsStatistics

#: Missing reports after which a worker counts as silent: one can be late, two are not.
MISSED_REPORTS = 2
#: Seconds for which a vanished worker is still shown.
SILENT_KEPT_SECONDS = 3_600.0


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report about itself. Its id is new at each start."""

    worker_id: str
    host: str
    pid: int
    version: str
    #: the analyses that it can run
    analyses: tuple[str, ...]
    slots: int
    busy: int
    #: the interval of its reports
    every_seconds: float
    started_at: Instant
    stopping: bool


class WorkerStatus(msgspec.Struct, frozen=True):
    """A worker as the store knows it."""

    report: WorkerReport
    seen_at: Instant
    #: the jobs that it holds, and when the last of their leases ends
    held: int
    held_until: Instant | None

    def quiet_seconds(self, now: Instant) -> float:
        """Return the seconds since its last report."""
        return max(0.0, seconds_between(self.seen_at, now))

    def silent(self, now: Instant) -> bool:
        """Whether it has missed more reports than can be late."""
        return self.quiet_seconds(now) > MISSED_REPORTS * self.report.every_seconds + 1.0

    def works(self, now: Instant) -> bool:
        """Whether it accepts new jobs."""
        return not self.report.stopping and not self.silent(now)


def runnable_analyses(workers: Iterable[WorkerStatus], now: Instant) -> frozenset[str]:
    """Return the analyses that some live worker can run."""
    return frozenset(name for worker in workers if worker.works(now) for name in worker.report.analyses)


SWEEP_DUTY = "sweep"
RETENTION_DUTY = "retention"
DELIVERY_DUTY = "deliveries"
#: only recorded by processes with a mail server
MAIL_DUTY = "mail"
#: A process that sends mail is expected for this many seconds after its last record: it may be restarting.
MAIL_EXPECTED_SECONDS = 300.0


def mail_sender_alive(done: Iterable["DutySuccess"], now: Instant) -> bool:
    """Whether some process with a mail server is running, or was just now."""
    return any(one.name == MAIL_DUTY and seconds_between(one.succeeded_at, now) < MAIL_EXPECTED_SECONDS for one in done)


#: Not a duty, but a write that shows whether the database accepts writes.
WRITE_PROBE = "write probe"


class DutySuccess(msgspec.Struct, frozen=True):
    """The last success of a duty, on any host."""

    name: str
    succeeded_at: Instant
    host: str


#: A message names at most so many analyses.
_MOST_NAMES = 5


class HealthFinding(msgspec.Struct, frozen=True):
    """A violated rule by its name, with the values of its message."""

    level: Severity
    name: str
    values: Mapping[str, Any] = {}


class Health(msgspec.Struct, frozen=True):
    """The violated rules, the most severe first."""

    findings: list[HealthFinding]

    @property
    def level(self) -> Severity:
        """The severity of the most severe finding."""
        return self.findings[0].level if self.findings else Severity.OK


def check_health(
    seen: OpsStatistics,
    workers: Sequence[WorkerStatus],
    *,
    writable: bool = True,
    paused: Collection[str] = (),
) -> Health:
    """Return the violated rules; `writable` is whether the store takes writes, `paused` which analyses are paused."""
    unwell = [] if writable else [HealthFinding(STORE_UNWRITABLE.severity, STORE_UNWRITABLE.name)]
    found = [*unwell, *_worker_findings(seen, workers), *_queue_findings(seen, workers, paused), *_ended_findings(seen)]
    return Health(sorted(found, key=lambda one: one.level is not Severity.BAD))


def _worker_findings(seen: OpsStatistics, workers: Sequence[WorkerStatus]) -> list[HealthFinding]:
    if not any(worker.works(seen.at) for worker in workers):
        return [HealthFinding(NO_WORKER.severity, NO_WORKER.name, {"waiting": seen.total.waiting})]
    silent = [worker for worker in workers if worker.silent(seen.at)]
    held = sum(worker.held for worker in silent)
    if not silent:
        return []
    longest = max(worker.quiet_seconds(seen.at) for worker in silent)
    level = SILENT_WORKER.severity if held else Severity.WARN
    return [HealthFinding(level, SILENT_WORKER.name, {"workers": len(silent), "seconds": longest, "jobs": held})]


def _queue_findings(
    seen: OpsStatistics, workers: Sequence[WorkerStatus], paused: Collection[str]
) -> list[HealthFinding]:
    known = runnable_analyses(workers, seen.at)
    unknown = [one for one in seen.analyses if known and one.waiting and one.name not in known]
    found = []
    if unknown:
        names = ", ".join(one.name for one in unknown[:_MOST_NAMES]) + (" …" if len(unknown) > _MOST_NAMES else "")
        values = {"analyses": names, "waiting": sum(one.waiting for one in unknown)}
        found.append(HealthFinding(UNKNOWN_ANALYSIS.severity, UNKNOWN_ANALYSIS.name, values))
    late = [
        one
        for one in seen.analyses
        if one not in unknown and one.name not in paused and _oldest(one, seen) > LONG_WAIT.threshold
    ]
    if late:
        longest = max(late, key=lambda one: _oldest(one, seen))
        values = {"analysis": longest.name, "seconds": _oldest(longest, seen)}
        found.append(HealthFinding(LONG_WAIT.severity, LONG_WAIT.name, values))
    return found


def _most_frequent_codes(seen: OpsStatistics) -> str:
    """Return the most frequent error code, or all that are equally frequent."""
    return ", ".join(one.code for one in seen.failures if one.count == seen.failures[0].count)


def _oldest(one: JobCounts, seen: OpsStatistics) -> float:
    return 0.0 if one.oldest_at is None else seconds_between(one.oldest_at, seen.at)


def _ended_findings(seen: OpsStatistics) -> list[HealthFinding]:
    found = []
    total = seen.total
    if total.ended >= MIN_ENDED and total.failed > FAILURES.threshold * total.ended:
        values = {"failed": total.failed, "ended": total.ended, "code": _most_frequent_codes(seen)}
        found.append(HealthFinding(FAILURES.severity, FAILURES.name, values))
    if seen.canceling:
        since = seen.canceling[0].cancel_requested_at or seen.at
        values = {"jobs": len(seen.canceling), "seconds": seconds_between(since, seen.at)}
        found.append(HealthFinding(SLOW_CANCEL.severity, SLOW_CANCEL.name, values))
    return found
